"""The standard streams as commands write to them: no character that can't be written, no reader that is gone and no
full disk ends in a traceback.

Results go to standard output, and one that can't be written is an error. Whether words on standard error arrive is
nobody's concern: a command does not fail because its progress is not seen.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from contextlib import suppress
from typing import TextIO

from harness.errors import MachineError

READER_GONE = 141
"""Exit status when the reader of our output is gone, as shells have it for other programs (128 + SIGPIPE)."""
_INPUT, _OUTPUT, _ERROR = 0, 1, 2
_NEAREST = "harness-nearest"
_IN_ASCII = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—−─━╌┄", "-"),
        **dict.fromkeys("│┃", "|"),
        **dict.fromkeys("·•", "."),
        **dict.fromkeys("…⋯", "..."),
        **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("“”", '"'),
        **dict(zip("▁▂▃▄▅▆▇█", "_.-:=+*#", strict=True)),
        **dict(zip("↑↓×µ≈", "^vxu~", strict=True)),
        "←": "<-",
        "→": "->",
        "±": "+-",
        "≤": "<=",
        "≥": ">=",
    }
)
"""What stands for the characters of our screens where the terminal's encoding lacks them; `?` for all others."""


def prepare() -> None:
    """Put the process's own streams in order; those that a caller has put in their place stay.

    A stream that is closed becomes one that leads nowhere: the next file to be opened would get its number otherwise,
    and what is meant for the screen would be written into it.
    """
    closed = [fd for fd in (_INPUT, _OUTPUT, _ERROR) if not _is_open(fd)]
    for fd in closed:
        where = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        os.set_inheritable(where, True)
        assert where == fd
    _closed.update(closed)
    if _INPUT in closed or sys.stdin is None:
        sys.stdin = open(_INPUT, encoding="utf-8", closefd=False)  # noqa: SIM115  for as long as the process lives
    if sys.stdout is sys.__stdout__:
        sys.stdout = _Output(_OUTPUT, _encoding_of(sys.stdout))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _Words(_ERROR, _encoding_of(sys.stderr))


_closed: set[int] = set()


def is_closed(stream: TextIO) -> bool:
    """Whether it was closed when the process began, so that nothing written to it arrives."""
    return isinstance(stream, _Output) and stream.fileno() in _closed


def one_reader() -> bool:
    """Whether results and words end up in the same place: one terminal, one file, one pipe."""
    try:
        return os.path.samestat(os.fstat(_OUTPUT), os.fstat(_ERROR))
    except OSError:
        return False


def takes_unicode(stream: TextIO) -> bool:
    """Whether every character can be written to it."""
    name = getattr(stream, "encoding", None) or "utf-8"
    with suppress(LookupError):
        name = codecs.lookup(name).name
    return name.startswith("utf")


class _Output(io.TextIOBase):
    """Writes at once, so that nothing is left to fail when the process ends. It has no `buffer`: click would write
    UTF-8 to that where the encoding is ASCII."""

    def __init__(self, fd: int, encoding: str) -> None:
        self._fd = fd
        self._encoding = encoding
        self._encoder = codecs.getincrementalencoder(encoding)(_NEAREST)  # writes one byte-order mark, not many

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    @property
    def errors(self) -> str:  # type: ignore[override]
        return _NEAREST

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Raises SystemExit when the reader is gone, MachineError when what is written does not arrive."""
        try:
            self._write(text)
        except BrokenPipeError:
            raise SystemExit(READER_GONE) from None  # there is nobody to tell
        except OSError as error:
            raise MachineError(
                f"standard output can't be written: {error.strerror}",
                hint="What was recorded is kept.",
            ) from error
        return len(text)

    def _write(self, text: str) -> None:
        rest = memoryview(self._encoder.encode(text))
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # whoever shares the pipe made it so
                select.select([], [self._fd], [])


class _Words(_Output):
    """Standard error: what does not arrive is let go."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._write(text)
        return len(text)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _encoding_of(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """The error handler: a byte that was no text in a file's name as JSON escapes it, else the nearest ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_in_ascii(character) for character in found), error.end


def _in_ascii(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        return f"\\u{ord(character):04x}"
    near = character.translate(_IN_ASCII)
    return near if near.isascii() else "?"


codecs.register_error(_NEAREST, _nearest)
