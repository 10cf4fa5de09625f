"""Runs one program with the protocol's pipe, reads pipe and output while it runs, and ends all that came of it.

The hosted runner reads the pipe only when the program has ended, so that more than 64 KiB on it hang the program; here
everything is read as it comes, up to a limit on all of it together.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from harness.evaluation.record import IsolationLevel
from harness.popcorn.protocol import Splitter
from harness.sandbox import SandboxPlan, bwrap_argv, kill_tree

OUTPUT_LIMIT_BYTES = 64 << 20
"""For pipe, standard output and standard error of one run together."""
TAIL_BYTES = 256 << 10
"""How much of the output's end is kept in memory; the log has all of it."""
LAUNCH_FAILED = 126
"""Exit status of the launcher, and of bubblewrap's, when the program was not started; as a shell's."""
_READ_BYTES = 1 << 16
_LOOK_EVERY_S = 0.02
_MOST_LEFT_READS = 64  # 4 MiB; a pipe holds 1 MiB at most
_PACKAGE = Path(__file__).resolve().parents[1]
_LAUNCH = "import sys; sys.path.insert(0, sys.argv.pop(1)); from harness.popcorn.launch import main; main()"


@dataclass(frozen=True)
class Limits:
    """When a run is ended from outside, in seconds."""

    total_s: float
    silence_s: float | None = None
    """Longest time between two lines on the pipe; counted from the first line on."""


@dataclass
class Tail:
    """The end of a stream, and what of it is new since the last look."""

    text: bytearray = field(default_factory=bytearray)
    fresh: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> None:
        for part in (self.text, self.fresh):
            part += data
            del part[:-TAIL_BYTES]

    def take_fresh(self) -> str:
        """What came since the last call, its end if it is long."""
        text = self.fresh.decode("utf-8", errors="replace")
        self.fresh.clear()
        return text

    def __str__(self) -> str:
        return self.text.decode("utf-8", errors="replace")


class Program:
    """One run of one program in a sandbox. Leaving the context ends every process that is left.

    Iterate `lines()`; afterwards `exit_status` (negative for a signal), `timed_out` and `over_limit` say how it ended.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        sandbox: SandboxPlan,
        log: Path,
        verdicts: Path | None = None,
    ) -> None:
        """`argv[0]` is absolute, or relative to the sandbox's home, which is the working folder.

        `log` gets standard output and error as they come, `verdicts` the bytes of the pipe.
        """
        self._sandbox = sandbox
        self._argv, self._environment = list(argv), dict(environment)
        self._log_path, self._verdicts_path = log, verdicts
        self.stdout, self.stderr = Tail(), Tail()
        self.exit_status: int | None = None
        self.timed_out = ""
        """Which limit it passed, as a sentence; empty when it ended by itself."""
        self.over_limit = False
        self.pipe_bytes = 0
        self.reads = 0
        """How often the pipe and the output were read. Lines of one read may have output of each other in it."""
        self._total_bytes = 0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._files: list[IO[bytes]] = []
        self._log = self._kept(self._log_path)
        self._verdicts = self._kept(self._verdicts_path) if self._verdicts_path else None
        self._pipe, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._command(theirs),
                env={**self._environment, "POPCORN_FD": str(theirs)},
                cwd=self._sandbox.scratch,
                pass_fds=[theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except BaseException:
            os.close(self._pipe)
            self._close_files()
            raise
        finally:
            os.close(theirs)
        self._started = time.monotonic()
        return self

    def _kept(self, path: Path) -> IO[bytes]:
        file = open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        self._files.append(file)
        return file

    def _command(self, pipe: int) -> list[str]:
        if self._sandbox.level is IsolationLevel.BUBBLEWRAP:
            return bwrap_argv(self._sandbox, self._argv)
        plan = json.dumps(self._sandbox.to_dict())
        return [sys.executable, "-P", "-c", _LAUNCH, str(_PACKAGE.parent), plan, str(pipe), *self._argv]

    def lines(self, limits: Limits) -> Iterator[str]:
        """The pipe's lines as they come, until the program has ended or a limit has passed.

        When a line is handed out, `stderr` holds all that the program wrote before it.
        """
        splitter = Splitter()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._streams = {
            self._process.stderr.fileno(): self.stderr,
            self._process.stdout.fileno(): self.stdout,
            self._pipe: None,
        }
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
        with selectors.DefaultSelector() as selector:
            for descriptor in self._streams:
                selector.register(descriptor, selectors.EVENT_READ)
            last_line: float | None = None
            while not self._has_ended() and not self.over_limit:
                self._note_limits(limits, last_line)
                if self.timed_out:
                    break
                ready = selector.select(_LOOK_EVERY_S)
                if not ready and not selector.get_map():
                    time.sleep(_LOOK_EVERY_S)  # all three are closed, and it still runs
                for line in splitter.feed(self._read(selector)):
                    last_line = time.monotonic()
                    yield line
            self._end()
            for _ in range(_MOST_LEFT_READS):  # all writers are gone, so this is what the pipes still hold
                data = self._read(selector)
                if not data:
                    break
                yield from splitter.feed(data)
            yield from splitter.finish()

    def _note_limits(self, limits: Limits, last_line: float | None) -> None:
        now = time.monotonic()
        if now - self._started > limits.total_s:
            self.timed_out = f"no end within {limits.total_s:.4g} s, the board's limit for all cases together"
        elif limits.silence_s is not None and last_line is not None and now - last_line > limits.silence_s:
            self.timed_out = f"no result within {limits.silence_s:.4g} s"

    def _read(self, selector: selectors.BaseSelector) -> bytes:
        """Whatever there is to read now: output into the log and the tails, the pipe's bytes returned.

        The pipe is read first, so that the output read after it holds at least all that came before its last line.
        """
        self.reads += 1
        data = self._read_one(selector, self._pipe)
        self.pipe_bytes += len(data)
        if self._verdicts is not None:
            self._verdicts.write(data)
        for descriptor, tail in self._streams.items():
            while tail is not None and not self.over_limit and (output := self._read_one(selector, descriptor)):
                tail.add(output)
                self._log.write(output)
                if len(output) < _READ_BYTES:
                    break
        return data

    def _read_one(self, selector: selectors.BaseSelector, descriptor: int) -> bytes:
        if descriptor not in selector.get_map():
            return b""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            selector.unregister(descriptor)
        self._total_bytes += len(data)
        self.over_limit = self._total_bytes > OUTPUT_LIMIT_BYTES
        return data

    def _has_ended(self) -> bool:
        """Whether the program has ended; it is not collected yet, so that its pid stays its own."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self.exit_status is not None or os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _end(self) -> None:
        """End what is left and collect it."""
        if self.exit_status is None:
            self.seconds = time.monotonic() - self._started
            kill_tree(self._process.pid, uid=self._sandbox.uid)
            status = self._process.wait()
            if self._sandbox.level is IsolationLevel.BUBBLEWRAP and 128 < status < 160:
                status = 128 - status
            self.exit_status = status

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        os.close(self._pipe)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._close_files()

    def _close_files(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
