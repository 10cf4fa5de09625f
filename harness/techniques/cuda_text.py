"""Rules for CUDA C++ and PTX, in files or in strings: text with comments and dead branches taken out.

The text is no Python and is not parsed; what a word means here, a PTX instruction or a CUDA type, it means wherever it
stands in code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.techniques.finding import Finding, State, Technique
from harness.techniques.parameters import technique_of

CUDA_WORDS = re.compile(r"__global__|__device__|\basm\s+volatile|#include\s*<(cuda|cute|cutlass|torch/extension)")
TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"', re.DOTALL)

WORDS: tuple[tuple[Technique, re.Pattern[str]], ...] = (
    (Technique.TMA, re.compile(r"cp\.async\.bulk|\bCUtensorMap\b|SM(90|100)_TMA_\w+|cp_async_bulk")),
    (Technique.WGMMA, re.compile(r"wgmma\.|SM90_\d+x\w*GMMA|warpgroup_arrive\(")),
    (Technique.TCGEN05, re.compile(r"tcgen05\.|SM100_MMA\w*")),
    (Technique.MMA, re.compile(r"(?<![\w.])mma\.sync|\bwmma::(mma_sync|load_matrix_sync)|SM[78]\d_\d+x\d+x\d+")),
    (Technique.MBARRIER, re.compile(r"mbarrier\.(?!\w*complete_tx)|cuda::barrier|ClusterTransactionBarrier")),
    (Technique.ASYNC_COPY, re.compile(r"cp\.async\.c[ag]\.|__pipeline_memcpy_async|\bmemcpy_async\(|SM80_CP_ASYNC")),
    (Technique.SHARED_MEMORY, re.compile(r"__shared__")),
    (Technique.WARP_SPECIALIZATION, re.compile(r"setmaxnreg\.|warpgroup_reg_(de)?alloc")),
    (
        Technique.PERSISTENT,
        re.compile(
            r"for\s*\([^;]*=\s*blockIdx\.\w\s*;[^;]*;[^)]*\+=\s*gridDim\.\w\s*\)|PersistentTileScheduler"
            r"|=\s*atomicAdd\(\s*&?\w*(ticket|tile|task|work|job|counter|queue)\w*[^;]*,\s*1u?\s*\)"
        ),
    ),
    (Technique.INLINE_PTX, re.compile(r"\basm\b\s*(volatile)?\s*\(")),
    (Technique.FP4, re.compile(r"\be2m1|\.e2m1|__nv_fp4|mxf4|float_e2m1")),
    (Technique.FP8, re.compile(r"\.e[45]m[23]|__nv_fp8|float_e[45]m[23]|__NV_E[45]M[23]")),
    (Technique.BF16, re.compile(r"\b__nv_bfloat16\d?\b|\.bf16\b|\.bf16x2\b|\bbfloat16_t\b|at::BFloat16|kBFloat16")),
    (
        Technique.FP16,
        re.compile(
            r"\b__half2?\b|\bhalf\s*\*(?!\s*[\dA-Z])|\bhalf2\b|\.f16\b|\.f16x2\b|\bhalf_t\b|at::Half\b|__float2half\w*"
        ),
    ),
    (Technique.TF32, re.compile(r"\.tf32\b|tfloat32_t|precision::tf32")),
)
HINTS = re.compile(
    r"L2::(?:cache_hint|evict_\w+|\d+B)|\b__(?:ldcs|stcs|ldcg|stcg|stwt|ldlu|ldcv)(?=\s*\()|"
    r"(?:ld|st)\.global(?:\.nc)?\.(?:L1::no_allocate|cs|cg|cv|lu|wt)|prefetch\.global\.L2"
)
VECTOR_BYTES = {
    **dict.fromkeys(("float4", "int4", "uint4", "double2", "longlong2", "ulonglong2"), 16),
    **dict.fromkeys(("float2", "int2", "uint2"), 8),
    **dict.fromkeys(("half2", "__half2", "__nv_bfloat162", "short2"), 4),
}
VECTOR = re.compile(
    r"(?:\b(?P<type>" + "|".join(VECTOR_BYTES) + r")\s*\*)"
    r"|(?:ld|st)\.(?:global|shared)[\w.:]*\.v(?P<count>[248])\.[a-z](?P<bits>\d+)"
)
CLUSTER_DIMS = re.compile(r"__cluster_dims__\s*\(\s*(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?\s*\)")
CLUSTER_USE = re.compile(r"barrier\.cluster\.|\bthis_cluster\(\)|multicast::cluster|\bmapa\.|cluster_sync\(")
CONSTANT = re.compile(r"(?:\bconstexpr\b|\bconst\b|\benum\b)[^;{}()]*?(?P<body>\b\w+\s*=\s*\d+[^;]*);")
DEFINITION = re.compile(r"(?P<name>\b[A-Za-z_]\w*)\s*=\s*(?P<value>\d+)\s*(?=[,;}]|$)")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+\(?(?P<value>\d+)\)?[ \t]*$", re.MULTILINE)
MAXIMUM = re.compile(r"(?P<new>\w+)\s*=\s*(?:__)?f?max[f]?\s*\(")
EXPONENTIAL = re.compile(r"\bexp\w*\s*\(\s*(?P<old>\w+(?:\[\w+\])?)\s*-\s*(?P<new>\w+)(?:\[\w+\])?\s*\)")


@dataclass(frozen=True)
class CudaText:
    """CUDA source whose first line is line `first_line` of the file; where the two do not run along, `flat`."""

    text: str
    first_line: int
    flat: bool = False
    when: str = ""


def looks_like_cuda(text: str) -> bool:
    return CUDA_WORDS.search(text) is not None


def find_cuda(source: CudaText) -> Iterator[Finding]:
    """Everything that one CUDA text does."""
    return _Reading(source).find()


class _Reading:
    def __init__(self, source: CudaText) -> None:
        self._source = source
        self._text = without_comments(source.text)
        self._conditions = _preprocessor(self._text)
        self._starts = [0] + [match.end() for match in re.finditer("\n", self._text)]

    def find(self) -> Iterator[Finding]:
        for technique, pattern in WORDS:
            for match in pattern.finditer(self._text):
                yield from self._found(technique, match.start())
        for match in HINTS.finditer(self._text):
            yield from self._found(Technique.L2_HINT, match.start(), match.group())
        for match in VECTOR.finditer(self._text):
            kind = match.group("type")
            count = VECTOR_BYTES[kind] if kind else int(match.group("count")) * int(match.group("bits")) // 8
            yield from self._found(Technique.VECTOR_WIDTH, match.start(), f"{count} B")
        yield from self._clusters()
        yield from self._constants()
        yield from self._online_softmax()

    def _clusters(self) -> Iterator[Finding]:
        sizes = list(CLUSTER_DIMS.finditer(self._text))
        for match in sizes:
            shape = tuple(int(size or 1) for size in match.groups())
            state = State.ENABLED if max(shape) > 1 else State.DECLARED
            yield from self._found(Technique.CLUSTER, match.start(), repr(shape), state)
        if not sizes:
            for match in CLUSTER_USE.finditer(self._text):
                yield from self._found(Technique.CLUSTER, match.start())

    def _constants(self) -> Iterator[Finding]:
        """Named integers; one that the text never names again is declared."""
        found = [(m.group("name"), m.group("value"), m.start()) for m in MACRO.finditer(self._text)]
        for statement in CONSTANT.finditer(self._text):
            start = statement.start("body")
            found += [
                (m.group("name"), m.group("value"), start + m.start())
                for m in DEFINITION.finditer(statement.group("body") + ";")
            ]
        for name, value, at in found:
            technique = technique_of(name, keyword=False)
            if technique is None:
                continue
            read = len(re.findall(rf"\b{re.escape(name)}\b", self._text)) > 1
            text = f"{name}={value}" if technique is Technique.TILE_SIZE else value
            state = State.ENABLED if read else State.DECLARED
            if technique in (Technique.SPLIT_K, Technique.CLUSTER) and int(value) <= 1:
                state = State.DECLARED
            yield from self._found(technique, at, text, state)

    def _online_softmax(self) -> Iterator[Finding]:
        maxima = {match.group("new") for match in MAXIMUM.finditer(self._text)}
        for match in EXPONENTIAL.finditer(self._text):
            old, new = match.group("old").partition("[")[0], match.group("new")
            if new in maxima and re.search(rf"\b{old}(\[\w+\])?\s*=\s*{new}\b", self._text):
                yield from self._found(Technique.ONLINE_SOFTMAX, match.start())

    def _found(self, technique: Technique, at: int, value: str = "", state: State = State.ENABLED) -> Iterator[Finding]:
        line = self._text.count("\n", 0, at)
        condition = self._conditions[line]
        if condition is None:
            return  # in a branch that `#if 0` takes out
        number = self._source.first_line + (0 if self._source.flat else line)
        when = " and ".join(filter(None, [self._source.when, condition]))
        yield Finding(technique, value, state, (number,), when)


def without_comments(text: str) -> str:
    """The text with every comment blanked, its line breaks kept. Comment marks inside strings are no comments."""

    def blank(match: re.Match[str]) -> str:
        token = match.group()
        return token if token[0] in 'R"' else "\n" * token.count("\n") + " " * (token.count("\n") == 0)

    return TOKENS.sub(blank, text)


def _preprocessor(text: str) -> list[str | None]:
    """For each line the `#if` conditions around it, or None where they can't hold."""
    stack: list[str | None] = []
    result: list[str | None] = []
    for line in text.split("\n"):
        words = line.strip().removeprefix("#").split(None, 1) if line.lstrip().startswith("#") else []
        word, rest = (words[0] if words else ""), (words[1].strip() if len(words) > 1 else "")
        if word == "if":
            stack.append(None if rest == "0" else "" if rest == "1" else rest)
        elif word in ("ifdef", "ifndef"):
            stack.append(f"defined({rest})" if word == "ifdef" else f"not (defined({rest}))")
        elif word in ("elif", "else") and stack:
            before = stack[-1]
            stack[-1] = rest if word == "elif" else "" if before is None else None if not before else f"not ({before})"
        elif word == "endif" and stack:
            stack.pop()
        guards = [part for part in stack if part != ""]
        result.append(None if None in guards else " and ".join(part for part in guards if part is not None))
    return result
