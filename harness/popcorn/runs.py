"""One run of an eval main: its lines made case records as they come, its end made what is left to say."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from harness.boards.board import format_spec
from harness.errors import MachineError
from harness.evaluation.plan import PlannedCase
from harness.evaluation.record import CaseResult, Progress, Reason, ReasonCode, Status
from harness.popcorn.program import LAUNCH_FAILED, Limits, Program
from harness.popcorn.protocol import CaseLines, ExitCode, Report, RunMode
from harness.popcorn.verdicts import Ending, Judge, Verdict


class EvalRun:
    """Follow a program by `follow`; `results` and `fault` then say what came of it."""

    def __init__(self, mode: RunMode, cases: Sequence[PlannedCase], judge: Judge, *, fail_fast: bool) -> None:
        self.mode, self.cases = mode, tuple(cases)
        self.results: list[CaseResult] = []
        self.fault: tuple[Status, Reason] | None = None
        """What is wrong with the run although every case it reported passed."""
        self._judge, self._fail_fast = judge, fail_fast
        self._report = Report(mode.kind)
        self._stderr, self._stderr_read = "", 0  # what was written while the current case ran, and the read it came in
        self._since = 0.0

    @property
    def failed(self) -> bool:
        """Whether a case did not pass."""
        return any(result.status is not Status.PASSED for result in self.results)

    def follow(self, program: Program, limits: Limits) -> Iterator[CaseResult | Progress]:
        """What the pipe says, case by case, and what the program's end makes of the rest.

        Raises RequestError and MachineError where it ended by the board's fault or the machine's.
        """
        self._since = time.monotonic()
        for line in program.lines(limits):
            before = self._report.current
            finished = self._report.add(line)
            if finished is not None:
                yield from self._finished(finished)
                if program.reads > self._stderr_read:  # else it may be of the case that this line tells of
                    self._stderr = ""
                if self._fail_fast and self.failed:
                    return
            current = self._report.current
            if current is not None and current is not before and current.index < len(self.cases):
                case = self.cases[current.index]
                text = f"{self.mode} {case.index}: {format_spec(case.spec)}"
                yield Progress(text, len(self.results), len(self.cases))
            elif current is not None and current.told:
                self._stderr += program.stderr.take_fresh()
                self._stderr_read = program.reads
        last = self._report.finish()
        ending = Ending.of(program)
        if last is not None and (last.decided or self._report.check is not None):
            yield from self._finished(last)
        if ending.in_order:
            yield from self._left_out(ending)
        else:
            yield from self._broken_off(ending)

    def _finished(self, lines: CaseLines) -> Iterator[CaseResult]:
        """The record of a case that is done; a number that the cases file lacks is the run's fault."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        if lines.index < len(self.cases):
            yield self._kept(self._judge.case(self.cases[lines.index], lines, self._stderr, seconds))
        elif self.fault is None:
            text = f"the pipe reports {lines.kind} {lines.index}; mode {self.mode} was given {len(self.cases)} cases"
            self.fault = Status.ERROR, Reason(ReasonCode.CHANNEL, text)

    def _left_out(self, ending: Ending) -> Iterator[CaseResult]:
        """After an end in good order: faults of the run, and cases that nothing was said of."""
        if self._report.check is None:
            yield from self._broken_off(ending)
            return
        self.fault = self.fault or self._judge.run_fault(self._report, ending, failed=self.failed)
        if self.failed or self.fault or self.mode is RunMode.PROFILE:
            return  # public mains may stop at the first wrong case; what is after it was not reached
        for case in self._untold():
            text = f"the eval main says check: pass and reports nothing of {case.kind} {case.index}"
            yield self._kept(ended_case(case, (Status.ERROR, Reason(ReasonCode.CHANNEL, text), "")))

    def _broken_off(self, ending: Ending) -> Iterator[CaseResult]:
        """After an end in the middle: the case that was running bears it, if there was one."""
        if ending.exit_status == LAUNCH_FAILED and not ending.pipe_bytes:
            text = f"the eval main could not be started: {ending.stderr.strip()}"
            raise MachineError(text, hint="`harness doctor` says more.")
        if ending.exit_status == ExitCode.CUDA_FAIL and self.failed and self._report.check is not None:
            return  # the case that it happened in has said so
        status, reason, traceback = self._judge.running(ending)
        left = self._untold()
        if not left:
            self.fault = status, Reason(reason.code, f"after the last case: {reason.message}")
            return
        rest = f"; the {len(left) - 1} after it were not reached" if len(left) > 1 else ""
        yield self._kept(ended_case(left[0], (status, Reason(reason.code, reason.message + rest), traceback)))

    def _untold(self) -> list[PlannedCase]:
        told = {result.index for result in self.results}
        return [case for case in self.cases if case.index not in told]

    def _kept(self, result: CaseResult) -> CaseResult:
        self.results.append(result)
        return result


def ended_case(case: PlannedCase, verdict: Verdict) -> CaseResult:
    """The record of a case that has a verdict and no more."""
    status, reason, traceback = verdict
    return CaseResult(case.kind, case.index, case.spec, status, reason, traceback)
