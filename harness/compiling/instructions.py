"""The instruction mix of a kernel, read from its disassembly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum


class InstructionClass(StrEnum):
    """Classes of machine instructions, by the unit that does the work."""

    TCGEN05 = "tcgen05"  # fifth-generation tensor core: multiply, and moves to and from tensor memory
    WGMMA = "wgmma"  # warp-group multiply
    MMA = "mma"  # warp-level multiply
    TMA = "tma"  # tensor and bulk copies, prefetches and reductions
    CP_ASYNC = "cp.async"
    FFMA = "ffma"
    FP32 = "fp32"  # the rest of fp32 arithmetic
    FP16 = "fp16"  # packed half and bfloat16 arithmetic
    FP64 = "fp64"
    INTEGER = "integer"
    SPECIAL = "special"  # exp2, rsqrt, reciprocal …
    CONVERT = "convert"
    LOCAL = "local"  # local memory: spills, and arrays that registers can't hold
    SHARED = "shared"
    GLOBAL = "global"
    ATOMIC = "atomic"
    MOVE = "move"  # registers, constants, special registers, exchange between lanes
    BARRIER = "barrier"
    CONTROL = "control"
    OTHER = "other"


_CLASSES: tuple[tuple[InstructionClass, str], ...] = (
    (InstructionClass.TCGEN05, r"UTC\w*|LDTM|STTM"),
    (InstructionClass.WGMMA, r"[HIQB]GMMA"),
    (InstructionClass.MMA, r"[HIQBDO]MMA|MMA"),
    (InstructionClass.TMA, r"UTMA\w*|UBLK\w*"),
    (InstructionClass.CP_ASYNC, r"LDGSTS"),
    (InstructionClass.FFMA, r"FFMA2?|FFMA32I"),
    (InstructionClass.SPECIAL, r"MUFU|RRO"),
    (InstructionClass.CONVERT, r"[FI]2(?:F|I|FP|IP)|F2FP|I2FP|I2IP|FRND"),
    (InstructionClass.FP16, r"H(?:FMA2|ADD2|MUL2|SET2|SETP2|MNMX2)\w*"),
    (InstructionClass.FP64, r"D(?:FMA|ADD|MUL|SETP|MNMX)"),
    (InstructionClass.FP32, r"F(?:ADD2?|MUL2?|MNMX3?|SEL|SET|SETP|CHK|SWZADD|CMP|ADD32I|MUL32I)"),
    (InstructionClass.LOCAL, r"LDL|STL"),
    (InstructionClass.ATOMIC, r"ATOM\w*|RED|REDG|REDS|UREDGR"),
    (InstructionClass.SHARED, r"LDS|STS|LDSM|STSM|U?LDSM|UST[SG]|LDS\w*|STAS"),
    (InstructionClass.GLOBAL, r"LDG|STG|LD|ST|CCTL\w*|LDGDEPBAR"),
    (
        InstructionClass.MOVE,
        r"U?MOV\w*|CS2U?R\w*|S2U?R|R2UR|R2P|P2R|UP2UR|UR2UP|U?LDCU?|SHFL|VOTE\w*|UVOTEU|MATCH|C?REDUX|U?PLOP3|MOVM"
        r"|GETLMEMBASE|LEPC|BMOV|R2B",
    ),
    (
        InstructionClass.BARRIER,
        r"BAR|SYNCS|DEPBAR|WARPSYNC|MEMBAR|FENCE|BSYNC|BSSY|UCGABAR\w*|ARRIVES|WARPGROUP|ERRBAR|UBAR",
    ),
    (
        InstructionClass.CONTROL,
        r"BRA|BRX|JMP\w*|EXIT|RET|CALL|NOP|KILL|YIELD|NANOSLEEP|BREAK|WARPGROUPSET|PREEXIT|ACQBULK|U?ELECT"
        r"|USETMAXREG|BPT",
    ),
    (
        InstructionClass.INTEGER,
        r"U?(?:IMAD|IADD3?|IADD32I|LOP3|LOP|SHF|SHL|SHR|LEA|ISETP|IMNMX|VIMNMX3?|IABS|POPC|FLO|BREV|SGXT|PRMT|BMSK"
        r"|ISCADD|IDP|IDP4A|VIADD\w*|XMAD|VABSDIFF\w*|IMUL|SEL)\w*",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _CLASSES)
_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Za-z0-9_]+)*)")


def classify(opcode: str) -> InstructionClass:
    """The class of an opcode without its modifiers, e.g. `UTCHMMA`."""
    for kind, pattern in _COMPILED:
        if pattern.fullmatch(opcode):
            return kind
    return InstructionClass.OTHER


def opcodes(sass: str) -> Counter[str]:
    """Instructions of a disassembly by opcode, padding after the last one left out."""
    found = [match.group(1) for match in _LINE.finditer(sass)]
    while found and found[-1] == "NOP":
        found.pop()
    if found and found[-1] == "BRA":  # the endless loop that ends every function
        found.pop()
    return Counter(found)


def instruction_mix(sass: str) -> dict[InstructionClass, int]:
    """Instructions of a disassembly by class, in the order of the classes; those without any are left out.

    These are counts in the code, not of what is executed.
    """
    counted: Counter[InstructionClass] = Counter()
    for opcode, count in opcodes(sass).items():
        counted[classify(opcode)] += count
    return {kind: counted[kind] for kind in InstructionClass if counted[kind]}


def total(mix: Mapping[InstructionClass, int]) -> int:
    return sum(mix.values())
