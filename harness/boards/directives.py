"""The header of a submission: its `#!POPCORN` lines, read by the hosted service's rule, and the file's own limits.

The hosted service reads the first run of lines that begin with `#` or `//` and stops at the first other line, a blank
one included. The hosted client scans the whole file and lets the last line win. We follow the service; where the
client would have found something else, a warning names the line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.boards.board import Language
from harness.errors import RequestError, did_you_mean
from harness.files import why_not_seen

MARKERS = ("#!POPCORN", "//!POPCORN")
KEYWORDS = {"leaderboard": "leaderboard", "gpu": "gpus", "gpus": "gpus"}
"""What a directive may say, and the name it is kept under."""
EXAMPLES = {"leaderboard": "leaderboard cholesky", "gpus": "gpu H100"}

MAX_BYTES = 1_000_000
"""The hosted service's limit for a submission."""
EXTENSIONS = {Language.PYTHON: (".py",), Language.CUDA: (".cu", ".cuh", ".cpp")}


@dataclass(frozen=True)
class Directives:
    """What a header says. `leaderboard` is None and `gpus` is empty where it says nothing."""

    leaderboard: str | None = None
    gpus: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for the person who submits, each naming file and line."""


def parse_directives(text: str, file_name: str) -> Directives:
    """Read the header of a submission's `text`; `file_name` is used in messages alone.

    Raises RequestError, naming file and line, for a directive that is malformed: unknown keyword, missing argument,
    bare marker, repeated keyword, GPU names separated by commas.
    """
    found: dict[str, tuple[int, list[str]]] = {}  # keyword -> (line number, arguments)
    warnings: list[str] = []
    for number, line in enumerate(_header(text), start=1):
        where = f"{file_name}:{number}"
        words = line.split()
        if words[0] not in MARKERS:
            if _looks_like_directive(line):
                warnings.append(
                    f"{where}: read as a plain comment; a directive starts with `#!POPCORN` or `//!POPCORN`, in upper "
                    "case, followed by a space"
                )
            continue
        keyword = _keyword(words, where)
        arguments = words[2:]
        if keyword in found:
            raise RequestError(
                f"`{keyword}` is given twice, first on line {found[keyword][0]}",
                where=where,
                hint="Keep one of the two lines." + (" One line may name several GPUs." if keyword == "gpus" else ""),
            )
        if keyword == "gpus" and any("," in name for name in arguments):
            raise RequestError(
                f"GPU names are separated by spaces, not commas: `{' '.join(arguments)}`",
                where=where,
                hint=f"Write `{words[0]} gpus {' '.join(' '.join(arguments).replace(',', ' ').split())}`.",
            )
        if keyword == "leaderboard" and len(arguments) > 1:
            warnings.append(f"{where}: only `{arguments[0]}` is read as the leaderboard, not {arguments[1:]}")
        found[keyword] = (number, arguments)
    leaderboard = found["leaderboard"][1][0] if "leaderboard" in found else None
    gpus = tuple(found["gpus"][1]) if "gpus" in found else ()
    warnings += _client_differences(text, file_name, leaderboard, gpus)
    return Directives(leaderboard, gpus, tuple(warnings))


def _header(text: str) -> list[str]:
    """The first run of comment lines, as the service takes it."""
    lines = []
    for line in text.splitlines():
        if not line.startswith(("#", "//")):
            break
        lines.append(line)
    return lines


def _keyword(words: list[str], where: str) -> str:
    """The keyword of a directive's words, under the name it is kept by."""
    allowed = ", ".join(KEYWORDS)
    if len(words) == 1:
        raise RequestError(
            f"`{words[0]}` says nothing",
            where=where,
            allowed=allowed,
            hint=f"Write e.g. `{words[0]} {EXAMPLES['leaderboard']}`, or remove the line.",
        )
    keyword = KEYWORDS.get(words[1].lower())
    if keyword is None:
        raise RequestError(
            f"unknown directive `{words[1]}`",
            where=where,
            allowed=allowed,
            hint=did_you_mean(words[1].lower(), list(KEYWORDS)),
        )
    if len(words) == 2:
        raise RequestError(
            f"`{words[1]}` needs an argument",
            where=where,
            hint=f"Write e.g. `{words[0]} {EXAMPLES[keyword]}`, or remove the line.",
        )
    return keyword


def _looks_like_directive(line: str) -> bool:
    """Whether a comment was probably meant as a directive: wrong case, a space too many or too few."""
    return "".join(line.split()).lower().lstrip("#/").startswith("!popcorn")


def _client_differences(text: str, file_name: str, leaderboard: str | None, gpus: tuple[str, ...]) -> list[str]:
    """Warnings for what the hosted client, which scans every line and lets the last win, would take instead."""
    client: dict[str, tuple[int, list[str]]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not line.startswith(MARKERS) or len(words) < 2 or words[0] not in MARKERS:
            continue
        keyword = KEYWORDS.get(words[1].lower())
        if keyword == "gpus" or (keyword == "leaderboard" and len(words) > 2):
            client[keyword] = (number, words[2:])
    warnings = []
    ours = {"leaderboard": [leaderboard] if leaderboard else [], "gpus": list(gpus)}
    for keyword, (number, arguments) in client.items():
        taken = arguments[:1] if keyword == "leaderboard" else arguments
        if taken != ours[keyword]:
            said = f"`{' '.join(taken)}`" if taken else "nothing"
            here = f"`{' '.join(ours[keyword])}`" if ours[keyword] else "nothing"
            warnings.append(
                f"{file_name}:{number}: this line is outside the first block of comments, so it is not read "
                f"({keyword}: {here}); the hosted client would read it ({keyword}: {said})"
            )
    if len(client.get("gpus", (0, []))[1]) > 1:
        warnings.append(f"{file_name}:{client['gpus'][0]}: the hosted client takes one GPU and refuses several")
    if text.startswith("\ufeff"):
        warnings.append(f"{file_name}:1: the file starts with a byte-order mark, which hides the directive on it")
    return warnings


def read_submission(path: Path, language: Language | None = None) -> str:
    """The text of a submission file, exactly as stored.

    `language` is the board's; None admits every extension. Raises RequestError for a path that is missing or no file,
    a wrong extension, an empty file, one of more than 1,000,000 bytes (the hosted service's limit), or no UTF-8.
    """
    where = str(path)
    if why := why_not_seen(path):
        raise RequestError(f"the file can't be read: {why}", where=where)
    if not os.path.exists(path):
        raise RequestError("there is no such file", where=where, hint=_near_file(path))
    if not os.path.isfile(path):
        raise RequestError("not a file", where=where, hint="Name the one file that holds the kernel.")
    allowed = EXTENSIONS[language] if language else tuple(e for group in EXTENSIONS.values() for e in group)
    if not path.name.endswith(allowed):
        task = {Language.PYTHON: " for a Python board", Language.CUDA: " for a CUDA board", None: ""}[language]
        raise RequestError(
            f"wrong extension{task}: '{path.suffix}'" if path.suffix else f"no extension{task}",
            where=where,
            allowed=", ".join(allowed),
        )
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RequestError(f"the file can't be read: {error.strerror}", where=where) from error
    if len(raw) > MAX_BYTES:
        raise RequestError(f"the file has {len(raw):,} bytes", where=where, allowed=f"at most {MAX_BYTES:,}")
    try:
        text = raw.decode("utf-8-sig")  # a byte-order mark is no part of the text
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise RequestError(
            f"byte 0x{raw[error.start]:02x} is no UTF-8", where=f"{where}:{line}", hint="Save the file as UTF-8."
        ) from error
    if not text.strip():
        raise RequestError("the file is empty", where=where, hint="`harness init BOARD` writes a file to start from.")
    return text


def _near_file(path: Path) -> str:
    try:
        return did_you_mean(path.name, [name for name in os.listdir(path.parent) if os.path.isfile(path.parent / name)])
    except OSError:
        return ""
