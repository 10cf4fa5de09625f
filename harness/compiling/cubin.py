"""Reading a cubin: the kernels in it and what the assembler wrote down about each.

A cubin is an ELF file. Per kernel K it has `.text.K` (code), `.nv.shared.K` (static shared memory, with the driver's
own share on top) and `.nv.info.K` (attributes); `.nv.info` holds registers and stack by symbol. Attribute numbers are
those that `cuobjdump -elf` and `nvdisasm` print by name.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

_INFO_VALUE_FORMATS = {1: 0, 2: 0, 3: 0}  # EIFMT_NVAL, BVAL, HVAL: the value is in the header itself
_INFO_SIZED = 4  # EIFMT_SVAL: a payload follows
_MAX_THREADS, _REQUIRED_THREADS, _REGISTERS, _FRAME, _MIN_STACK, _CLUSTER = 0x05, 0x10, 0x2F, 0x11, 0x12, 0x3D
_SYMBOL_TABLE = 2


class CubinError(Exception):
    """The bytes are no cubin."""


@dataclass(frozen=True)
class CubinKernel:
    """One kernel of a cubin. `threads` are the block's required ones, `most_threads` its launch bound, 0 for none.

    `section_shared_bytes` includes what the driver reserves on this architecture, as the section has it.
    """

    name: str
    registers: int = 0
    stack_bytes: int = 0
    section_shared_bytes: int = 0
    code_bytes: int = 0
    code_sha256: str = ""
    """Of the code and its constants: not of line tables, which name the folder that it was compiled in."""
    threads: int = 0
    most_threads: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    info: int = 0


def kernels_of(cubin: bytes) -> tuple[CubinKernel, ...]:
    """The kernels of a cubin, in the order of their code. Raises CubinError for anything else."""
    try:
        return _kernels_of(cubin)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise CubinError(f"not a cubin: {error}") from error


def _kernels_of(cubin: bytes) -> tuple[CubinKernel, ...]:
    if cubin[:5] != b"\x7fELF\x02":
        raise CubinError("not a cubin: no 64-bit ELF header")
    sections = _sections(cubin)
    symbols = _symbols(cubin, sections)
    by_name = {section.name: section for section in sections}
    registers, frames, stacks = _by_symbol(cubin, by_name.get(".nv.info"), symbols)
    found = []
    for section in sections:
        name = section.name.removeprefix(".text.")
        info = by_name.get(f".nv.info.{name}")
        if name == section.name or info is None:  # without attributes of its own it is a device function
            continue
        shared = by_name.get(f".nv.shared.{name}")
        attributes = _attributes(cubin, info)
        found.append(
            CubinKernel(
                name=name,
                registers=registers.get(name, section.info >> 24),
                stack_bytes=max(frames.get(name, 0), stacks.get(name, 0)),
                section_shared_bytes=shared.size if shared else 0,
                code_bytes=section.size,
                code_sha256=_digest(cubin, [section, *(s for s in sections if _is_constants(s, name))]),
                threads=_product(attributes.get(_REQUIRED_THREADS)),
                most_threads=_product(attributes.get(_MAX_THREADS)),
                cluster=_triple(attributes.get(_CLUSTER)),
            )
        )
    return tuple(found)


def _is_constants(section: _Section, kernel: str) -> bool:
    return section.name.startswith(".nv.constant") and section.name.endswith(f".{kernel}")


def _digest(cubin: bytes, sections: list[_Section]) -> str:
    told = hashlib.sha256()
    for section in sections:
        told.update(cubin[section.offset : section.offset + section.size])
    return told.hexdigest()


def _sections(cubin: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    raw = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + i * entry_bytes) for i in range(count)]
    names = raw[names_index][4]
    return [_Section(_text(cubin, names + each[0]), each[1], each[4], each[5], each[7]) for each in raw]


def _symbols(cubin: bytes, sections: list[_Section]) -> list[str]:
    strings = next((section for section in sections if section.name == ".strtab"), None)
    table = next((section for section in sections if section.kind == _SYMBOL_TABLE), None)
    if strings is None or table is None:
        return []
    offsets = [struct.unpack_from("<I", cubin, table.offset + at)[0] for at in range(0, table.size, 24)]
    return [_text(cubin, strings.offset + offset) for offset in offsets]


def _by_symbol(
    cubin: bytes, info: _Section | None, symbols: list[str]
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    tables: dict[int, dict[str, int]] = {_REGISTERS: {}, _FRAME: {}, _MIN_STACK: {}}
    for attribute, payload in _walk(cubin, info):
        if attribute in tables and len(payload) >= 8:
            symbol, value = struct.unpack_from("<II", payload)
            tables[attribute][symbols[symbol]] = value
    return tables[_REGISTERS], tables[_FRAME], tables[_MIN_STACK]


def _attributes(cubin: bytes, info: _Section) -> dict[int, bytes]:
    return dict(_walk(cubin, info))


def _walk(cubin: bytes, info: _Section | None) -> list[tuple[int, bytes]]:
    found = []
    at = info.offset if info else 0
    end = at + info.size if info else 0
    while at + 4 <= end:
        form, attribute, value = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form == _INFO_SIZED:
            found.append((attribute, cubin[at : at + value]))
            at += value
        elif form not in _INFO_VALUE_FORMATS:
            raise CubinError(f"an attribute of unknown format {form}")
    return found


def _triple(payload: bytes | None) -> tuple[int, int, int]:
    if not payload or len(payload) < 12:
        return (1, 1, 1)
    x, y, z = struct.unpack_from("<III", payload)
    return (max(x, 1), max(y, 1), max(z, 1))


def _product(payload: bytes | None) -> int:
    if not payload or len(payload) < 12:
        return 0
    x, y, z = _triple(payload)
    return x * y * z


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
