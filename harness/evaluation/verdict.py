"""How an evaluation ended, from how its cases did."""

from __future__ import annotations

from harness.boards.board import format_spec
from harness.evaluation.plan import PlannedCase
from harness.evaluation.record import CaseResult, Reason, ReasonCode, Status
from harness.evaluation.workers import WorkerFault

STATUS_ORDER = (Status.REJECTED, Status.FAILED, Status.ERROR, Status.TIMEOUT)
"""Which status an evaluation takes when its cases ended differently: the first of these that occurs."""


def failed(case: PlannedCase, fault: WorkerFault) -> CaseResult:
    """The record of a case that did not come to run."""
    return CaseResult(case.kind, case.index, case.spec, fault.status, fault.reason, fault.traceback)


def verdict(results: list[CaseResult]) -> tuple[Status, Reason | None]:
    """The status of an evaluation from its cases, with the reason of the first case that has it."""
    for status in STATUS_ORDER:
        for result in results:
            if result.status is status:
                cause = result.reason or Reason(ReasonCode.CHANNEL, "")
                text = f"{result.kind} case {result.index} ({format_spec(result.spec)}): {cause.message}"
                return status, Reason(cause.code, text)
    return Status.PASSED, None
