"""How CUDA C++ launches its kernels, as far as the text alone tells: block size and dynamic shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LAUNCH = re.compile(
    r"\b(?P<name>[A-Za-z_]\w*)\s*(?:<[^<>;(){}]*(?:<[^<>]*>[^<>]*)*>)?\s*<<<(?P<args>.*?)>>>", re.DOTALL
)
_CONSTANT = re.compile(
    r"(?:#\s*define\s+(?P<macro>\w+)\s+\(?\s*(?P<mvalue>\d+)\s*\)?\s*$)"
    r"|(?:\b(?:constexpr|const)\b[\w\s:]*?\b(?P<const>\w+)\s*(?:=|\{)\s*(?P<cvalue>[\w\s*+/()-]+?)\s*[;}])",
    re.MULTILINE,
)
_DIM3 = re.compile(r"\bdim3\s+(?P<name>\w+)\s*(?:\(|\{|=\s*dim3\s*[({])(?P<args>[^;{}]*?)[)}]\s*;")
_KERNEL = re.compile(r"__global__(?:[\w:<>*&\s]|__\w+__\s*\([^)]*\))*?\b(?P<name>(?!__\w+__\b)[A-Za-z_]\w*)\s*\(")
_ALLOWED = re.compile(r"[\d\s*+/()-]+")


@dataclass(frozen=True)
class TextLaunch:
    """One launch in the text; None for what only the running program knows."""

    kernel: str
    threads: int | None
    dynamic_shared_bytes: int | None


def kernel_lines(text: str) -> dict[str, int]:
    """The line, from 1, of every `__global__` function by its name."""
    bare = without_comments(text)
    return {m.group("name"): bare[: m.start("name")].count("\n") + 1 for m in _KERNEL.finditer(bare)}


def launches(text: str) -> tuple[TextLaunch, ...]:
    """Every `kernel<<<…>>>` of a source."""
    bare = without_comments(text)
    constants = _constants(bare)
    blocks = {m.group("name"): m.group("args") for m in _DIM3.finditer(bare)}
    found = []
    for match in _LAUNCH.finditer(bare):
        arguments = _split(match.group("args"))
        threads = _threads(arguments[1], constants, blocks) if len(arguments) > 1 else None
        shared = _value(arguments[2], constants) if len(arguments) > 2 else 0
        found.append(TextLaunch(match.group("name"), threads, shared))
    return tuple(found)


def without_comments(text: str) -> str:
    """The text with comments blanked, line breaks kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)


def _constants(text: str) -> dict[str, int]:
    known: dict[str, int] = {}
    for match in _CONSTANT.finditer(text):
        name = match.group("macro") or match.group("const")
        value = _value(match.group("mvalue") or match.group("cvalue") or "", known)
        if value is not None:
            known.setdefault(name, value)
    return known


def _threads(text: str, constants: dict[str, int], blocks: dict[str, str]) -> int | None:
    text = text.strip()
    literal = re.fullmatch(r"dim3\s*[({](.*)[)}]", text, re.DOTALL)
    if literal:
        parts = _split(literal.group(1))
    elif text in blocks:
        parts = _split(blocks[text])
    else:
        parts = [text]
    product = 1
    for part in parts:
        value = _value(part, constants)
        if value is None:
            return None
        product *= value
    return product


def _value(text: str, constants: dict[str, int]) -> int | None:
    """An arithmetic expression of known constants; None for anything else."""
    told = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: str(constants.get(m.group(), m.group())), text.strip())
    told = re.sub(r"(?<=\d)[uUlL]+\b", "", told)
    if "**" in told:
        return None
    if not told or len(told) > 100 or not _ALLOWED.fullmatch(told):
        return None
    try:
        value = eval(told.replace("/", "//").replace("////", "//"), {"__builtins__": {}})
    except (SyntaxError, ZeroDivisionError, TypeError, OverflowError):
        return None
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else None


def _split(text: str) -> list[str]:
    """Arguments split at commas outside brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]
