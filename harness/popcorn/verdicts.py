"""What the pipe, the output and the exit status of an eval main make of a case, and of the run."""

from __future__ import annotations

import base64
import binascii
import math
import re
from dataclasses import dataclass

from harness.boards.board import Board
from harness.errors import MachineError, RequestError
from harness.evaluation.plan import PlannedCase
from harness.evaluation.record import CaseResult, Reason, ReasonCode, Samples, Status
from harness.popcorn.program import Program
from harness.popcorn.protocol import CaseLines, ExitCode, Report, RunMode, message_of

Verdict = tuple[Status, Reason, str]
"""Status, reason, traceback."""

MOST_MESSAGE = 2000
MOST_TRACEBACK = 64 << 10
_IN_CASE = "In case ("
_STATISTICS = ("best", "worst", "std", "err")
_TRACEBACK = "Traceback (most recent call last):"
_CUDA_DEMANDED = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available"
    r"|no CUDA-capable device|CUDA driver version is insufficient|0 active drivers"
)
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|CUDA out of memory|^MemoryError|DefaultCPUAllocator: can't allocate", re.M
)
_CUDA_ERROR = re.compile(r"AcceleratorError|CUDA error|CUBLAS_STATUS|CUDNN_STATUS|cusolver error", re.I)


@dataclass(frozen=True)
class Ending:
    """How a run's program ended."""

    exit_status: int
    timed_out: str
    over_limit: bool
    pipe_bytes: int
    stderr: str

    @classmethod
    def of(cls, program: Program) -> Ending:
        """Of a program whose lines have been read to their end."""
        assert program.exit_status is not None
        return cls(program.exit_status, program.timed_out, program.over_limit, program.pipe_bytes, str(program.stderr))

    @property
    def in_order(self) -> bool:
        """Whether it ended by itself, with a status that goes with a verdict."""
        stopped = bool(self.timed_out) or self.over_limit
        return not stopped and self.exit_status in (ExitCode.SUCCESS, ExitCode.VALIDATE_FAIL)


class Judge:
    """Makes records of what one run reported. `submission` is the name that the submission's file has there."""

    def __init__(self, board: Board, mode: RunMode, submission: str, *, cuda: bool) -> None:
        self._board, self._mode, self._submission, self._cuda = board, mode, submission, cuda

    # --- a case ---

    def case(self, planned: PlannedCase, lines: CaseLines, stderr: str, seconds: float) -> CaseResult:
        """The record of a case that the pipe has told all about; `stderr` is what was written meanwhile."""
        status, reason, traceback = Status.PASSED, None, ""
        samples: Samples | None = None
        notes: tuple[str, ...] = ()
        problem = self._problem(lines)
        if problem:
            status, reason = Status.ERROR, Reason(ReasonCode.CHANNEL, problem)
        elif lines.fields.get("status") == "fail":
            own = part_on(lines.fields.get("spec", ""), stderr)
            status, reason, traceback = self._failure(message_of(lines.fields.get("error", "")), own)
        elif self._mode is RunMode.TEST:
            notes = tuple(filter(None, [cut(message_of(lines.fields.get("message", "")))]))
        elif self._mode is RunMode.PROFILE:
            notes = tuple(filter(None, [decoded(lines.fields.get("report", ""))]))
        else:
            samples, notes = statistics(lines)
        return CaseResult(
            planned.kind,
            planned.index,
            planned.spec,
            status,
            reason,
            traceback,
            samples=samples,
            notes=notes,
            seconds=seconds,
        )

    def _problem(self, lines: CaseLines) -> str:
        """What is wrong with the lines themselves, not with what they say; empty when nothing is."""
        if lines.contradictions:
            return f"the pipe says {lines.contradictions[0]} twice, differently; who wrote which can't be known"
        name = f"{lines.kind}.{lines.index}"
        status = lines.fields.get("status")
        if status == "fail":
            return ""
        if self._mode is RunMode.TEST:
            return "" if status == "pass" else f"{name}.status is {_quoted(status)}, neither pass nor fail"
        if status not in (None, "pass"):
            return f"{name}.status is {_quoted(status)}, neither pass nor fail"
        if self._mode is RunMode.PROFILE:
            return ""
        mean = number(lines.fields.get("mean"))
        if mean is None or round(mean) < 1:
            return f"{name}.mean is {_quoted(lines.fields.get('mean'))}, not a time in nanoseconds"
        return ""

    def _failure(self, message: str, stderr: str) -> Verdict:
        """Of a case that the main calls failed: wrong, or an exception whose traceback is in `stderr`."""
        if _TRACEBACK not in stderr:
            text = cut(message) or "the check failed; its message is empty"
            return Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, text), ""
        status, code = self._kind_of_exception(message + "\n" + stderr)
        return status, Reason(code, cut(message) or exception_line(stderr)), stderr[-MOST_TRACEBACK:].strip()

    def _kind_of_exception(self, text: str) -> tuple[Status, ReasonCode]:
        if _OUT_OF_MEMORY.search(text):
            return Status.ERROR, ReasonCode.OUT_OF_MEMORY
        if _CUDA_ERROR.search(text) and not _CUDA_DEMANDED.search(text):
            return Status.ERROR, ReasonCode.CUDA_ERROR
        if "cannot import name 'custom_kernel'" in text:
            return Status.FAILED, ReasonCode.NO_ENTRY
        frame = rf'File "[^"\n]*{re.escape(self._submission)}", line \d+'
        if re.search(rf"{frame}, in <module>|{frame}\n", text):  # while it was imported, or could not be parsed
            return Status.FAILED, ReasonCode.IMPORT_FAILED
        return Status.FAILED, ReasonCode.EXCEPTION

    # --- a run ---

    def running(self, ending: Ending) -> Verdict:
        """What becomes of the case that was running when the program ended without a word on it.

        Raises MachineError where this machine is at fault and RequestError where the board is.
        """
        if ending.over_limit:
            text = "the program wrote more than 64 MiB of output and was stopped"
            return Status.ERROR, Reason(ReasonCode.OUTPUT_LIMIT, text), ""
        if ending.timed_out:
            text = f"{ending.timed_out}; it was stopped (the hosted service's exit status {ExitCode.TIMEOUT_EXPIRED:d})"
            return Status.TIMEOUT, Reason(ReasonCode.TIMEOUT, text), ""
        self._raise_for_board_and_machine(ending)
        if ending.in_order:
            text = f"the eval main ended with exit status {ending.exit_status} and no `check` line"
            return Status.ERROR, Reason(ReasonCode.CHANNEL, text), ""
        if ending.exit_status == ExitCode.CUDA_FAIL:
            text = "a CUDA call failed (exit status 110)"
            return Status.ERROR, Reason(ReasonCode.CUDA_ERROR, text), ending.stderr[-MOST_TRACEBACK:].strip()
        if ending.exit_status == ExitCode.PIPE_FAILED:
            text = "the eval main could not open the pipe that POPCORN_FD names (exit status 111)"
            return Status.ERROR, Reason(ReasonCode.CHANNEL, text), ""
        if ending.exit_status > 0 and _TRACEBACK in ending.stderr:
            status, code = self._kind_of_exception(ending.stderr)
            traceback = ending.stderr[-MOST_TRACEBACK:].strip()
            return status, Reason(code, f"{exception_line(ending.stderr)} (it ended the eval main)"), traceback
        if ending.exit_status < 0:
            text = f"the eval main was killed by {_signal_name(-ending.exit_status)}"
        else:
            text = f"the eval main ended with exit status {ending.exit_status} and no verdict"
        return Status.ERROR, Reason(ReasonCode.CRASH, text), ending.stderr[-MOST_TRACEBACK:].strip()

    def _raise_for_board_and_machine(self, ending: Ending) -> None:
        said = f"\nIt said: {last_line(ending.stderr)}" if ending.stderr.strip() else ""
        if ending.exit_status == ExitCode.TEST_SPEC:
            raise RequestError(
                f"the board's eval main can't read its own cases (exit status 113){said}",
                where=str(self._board.folder / "task.yml"),
                hint="Older public mains take whole numbers and plain words only. --protocol sealed takes any value.",
            )
        if ending.exit_status == ExitCode.USAGE and not ending.pipe_bytes:
            raise RequestError(
                f"the board's eval main has no mode {self._mode} (exit status 2){said}", where=str(self._board.folder)
            )
        if self._submission in ending.stderr:
            return  # the submission's own doing, or at least nobody else's for sure
        if _CUDA_DEMANDED.search(ending.stderr) and not self._cuda:
            raise MachineError(
                f"board '{self._board.name}' demands a CUDA device and this machine has none{said}",
                hint="`harness doctor` says what this machine has.",
            )
        missing = _NO_MODULE.search(ending.stderr)
        if missing:
            raise MachineError(
                f"board '{self._board.name}' needs the Python module '{missing[1]}', which this machine lacks",
                hint=f"Install it, or add {missing[1].split('.')[0]}.py to the board's files if it is the board's own.",
            )

    def run_fault(self, report: Report, ending: Ending, *, failed: bool) -> tuple[Status, Reason] | None:
        """What is wrong with a run that ended by itself with 0 or 112, beyond its cases; `failed`: one of them did."""
        if report.contradictions:
            text = f"the pipe says {report.contradictions[0]} twice, differently; who wrote which can't be known"
            return Status.ERROR, Reason(ReasonCode.CHANNEL, text)
        if report.check not in ("pass", "fail"):
            text = f"check is {_quoted(report.check)}, neither pass nor fail"
            return Status.ERROR, Reason(ReasonCode.CHANNEL, text)
        if report.check == "pass" and ending.exit_status == ExitCode.VALIDATE_FAIL:
            text = f"the pipe says check: {report.check}, the exit status says {ending.exit_status}"
            return Status.ERROR, Reason(ReasonCode.CHANNEL, text)
        if report.check == "fail" and not failed:
            text = f"mode {self._mode}: the eval main says that the check failed, and names no case"
            return Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, text)
        return None


def statistics(lines: CaseLines) -> tuple[Samples, tuple[str, ...]]:
    """A benchmark's figures. The protocol gives no single samples, so the mean stands as the only one."""
    mean = number(lines.fields["mean"])
    assert mean is not None
    others = [(name, number(lines.fields.get(name))) for name in _STATISTICS]
    parts = [f"{name} {value!r}" for name, value in others if value is not None]
    runs = lines.fields.get("runs", "")
    over = f"over {runs} runs" if runs.isdecimal() else "over an untold number of runs"
    note = f"the figure is the eval main's mean {over}, {mean!r} ns"
    return Samples(wall_ns=(round(mean),)), ("; ".join([note, ", ".join(parts)]) if parts else note,)


def decoded(report: str) -> str:
    """A profile's table, which mains write in base64 with `+` and `*`; as it came where it is none."""
    try:
        return base64.b64decode(report.strip(), b"+*", validate=True).decode(errors="replace").rstrip()
    except (binascii.Error, ValueError):
        return report


def number(text: str | None) -> float | None:
    """A finite number, zero or more; None for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def cut(text: str) -> str:
    return text if len(text) <= MOST_MESSAGE else text[: MOST_MESSAGE - 6] + " [...]"


def last_line(text: str) -> str:
    """The last line that says something, as the end of a traceback does."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:500] if lines else ""


def exception_line(text: str) -> str:
    """The line of the last traceback that names the exception, e.g. `ValueError: negative size`."""
    after = text[text.rfind(_TRACEBACK) + len(_TRACEBACK) :] if _TRACEBACK in text else text
    named = (line for line in after.splitlines() if line.strip() and not line[0].isspace())
    return next(named, last_line(text)).strip()[:500]


def part_on(spec: str, stderr: str) -> str:
    """What of the output is on this case, where the main says so, as ours does by `In case (n: 32):`."""
    if _IN_CASE not in stderr:
        return stderr
    _, own, after = stderr.rpartition(f"{_IN_CASE}{spec}):")
    return own + after.partition(_IN_CASE)[0] if own else ""


def _quoted(text: str | None) -> str:
    return "missing" if text is None else repr(text[:80])


def _signal_name(number: int) -> str:
    import signal

    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
