"""The public popcorn protocol as an eval main speaks it: `key: value` lines on a pipe, and an exit status.

    test-count, test.I.spec, test.I.status (pass, fail), test.I.message, test.I.error
    benchmark-count, benchmark.I.spec, .runs, .mean, .std, .err, .best, .worst (nanoseconds), or .status and .error
    benchmark.I.report (mode profile, base64), and at last  check: pass  or  check: fail

Reading only: nothing here starts a program. Source: the hosted service's runner and the public eval mains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from harness.evaluation.record import CaseKind

MOST_LINE_BYTES = 1 << 20
"""A longer line is cut. A torch profiler's table in base64, the longest honest line, is a tenth of that."""
MOST_CASES = 10_000


class ExitCode(IntEnum):
    """What an eval main's exit status says; any other is a crash."""

    SUCCESS = 0
    USAGE = 2
    CUDA_FAIL = 110  # a CUDA API call failed
    PIPE_FAILED = 111  # POPCORN_FD could not be opened
    VALIDATE_FAIL = 112  # it ran, and something was wrong
    TEST_SPEC = 113  # the cases file could not be read
    TIMEOUT_EXPIRED = 114  # the hosted runner's own word for a program that it ended


class RunMode(StrEnum):
    """The first argument of an eval main."""

    TEST = "test"
    BENCHMARK = "benchmark"
    LEADERBOARD = "leaderboard"
    PROFILE = "profile"

    @property
    def kind(self) -> CaseKind:
        """The kind of its cases; each mode but `test` reports `benchmark` keys."""
        return CaseKind.TEST if self is RunMode.TEST else CaseKind.BENCHMARK


_CASE_KEY = re.compile(r"(test|benchmark)\.([0-9]{1,6})\.([A-Za-z_-]{1,40})")
_PLAIN_KEYS = ("check", "test-count", "benchmark-count")
_TEXT_FIELDS = ("message", "error")


@dataclass
class CaseLines:
    """What the pipe said of one case."""

    kind: CaseKind
    index: int
    fields: dict[str, str] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    """Keys that came again with another value."""

    @property
    def told(self) -> bool:
        """Whether there is more than the case's name."""
        return bool(self.fields.keys() - {"spec"})

    @property
    def decided(self) -> bool:
        """Whether there is enough for a record, should nothing more come."""
        return bool(self.fields.keys() & {"status", "mean", "report"})


class Splitter:
    """Bytes in, whole lines out. Bytes that are no UTF-8 become U+FFFD; a line over the limit is cut."""

    def __init__(self, most_line_bytes: int = MOST_LINE_BYTES) -> None:
        self._most = most_line_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[str]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            yield self._taken()
        self._keep(rest)

    def finish(self) -> Iterator[str]:
        """The last line, where it lacked its end."""
        if self._rest:
            yield self._taken()

    def _keep(self, data: bytes) -> None:
        self._rest += data[: self._most - len(self._rest)]

    def _taken(self) -> str:
        text = self._rest.decode("utf-8", errors="replace").removesuffix("\r")
        self._rest.clear()
        return text


class Report:
    """Collects the lines of one run. `add` and `finish` return a case once the pipe has gone on to something else.

    The first value of a key counts. The hosted service takes the last, but no eval main writes a key twice: a second
    value is another author's, so it is kept as a contradiction, which no verdict survives. A line that begins with no
    known key continues a message before it (public mains print messages with their line breaks, and the hosted
    service loses all but the first line).
    """

    def __init__(self, kind: CaseKind) -> None:
        self._kind = kind
        self._plain: dict[str, str] = {}
        self._case: CaseLines | None = None
        self._closed: set[int] = set()
        self._continues: tuple[dict[str, str], str] | None = None
        self.contradictions: list[str] = []
        """Keys that came again with another value, of cases already closed or of no case."""

    @property
    def check(self) -> str | None:
        """The run's verdict: `pass`, `fail`, or whatever was written; None when there is none."""
        return self._plain.get("check")

    @property
    def count(self) -> int | None:
        """How many cases the main says it has; None when it didn't say, or no number."""
        text = self._plain.get(f"{self._kind}-count", "")
        return int(text) if text.isdecimal() and len(text) <= 6 else None

    @property
    def current(self) -> CaseLines | None:
        """The case that the lines are about now."""
        return self._case

    def add(self, line: str) -> CaseLines | None:
        key, colon, value = (part.strip() for part in line.partition(":"))
        matched = _CASE_KEY.fullmatch(key) if colon else None
        if matched:
            return self._of_case(key, CaseKind(matched[1]), int(matched[2]), matched[3], value)
        if colon and key in _PLAIN_KEYS:
            self._continues = None
            if self._plain.setdefault(key, value) != value:
                self.contradictions.append(key)
            return self.finish() if key == "check" else None
        if self._continues is not None:
            fields, name = self._continues
            if len(fields[name]) < MOST_LINE_BYTES:
                fields[name] += "\n" + line
        return None

    def _of_case(self, key: str, kind: CaseKind, index: int, name: str, value: str) -> CaseLines | None:
        self._continues = None
        if kind is not self._kind or index >= MOST_CASES:
            return None
        finished = None
        if self._case is None or self._case.index != index:
            if index in self._closed:
                self.contradictions.append(key)
                return None
            finished = self.finish()
            self._case = CaseLines(kind, index)
        if name not in self._case.fields:
            self._case.fields[name] = value
            if name in _TEXT_FIELDS:
                self._continues = (self._case.fields, name)
        elif self._case.fields[name] != value:
            self._case.contradictions.append(key)
        return finished

    def finish(self) -> CaseLines | None:
        """The case that was open, if one was. Call it when the program has ended."""
        case, self._case = self._case, None
        self._continues = None
        if case is not None:
            self._closed.add(case.index)
        return case


def message_of(text: str) -> str:
    """A message with the line breaks that mains write as a backslash and an n."""
    return text.replace("\\n", "\n").strip()
