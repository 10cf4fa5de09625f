"""That a run left cases of its grid out, as the reason why it has no score: written and read here, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace

from harness.boards.board import GridName
from harness.evaluation.plan import Plan
from harness.evaluation.record import CaseKind, Reason, ReasonCode
from harness.wording import noun_for

_COUNTS = re.compile(r"only (\d+ of \d+) \w+ cases? (?:was|were) run")
OWN_SHAPE = Reason(ReasonCode.CASES_LEFT_OUT, "a shape of your own is none of the grid's cases")


def left_out(plan: Plan, grid: GridName) -> Reason | None:
    """Why the cases of a plan make no score; None where it leaves nothing of its grid out. It tells the benchmarks, and
    the tests where of these alone some are missing."""
    if plan.spec is not None:
        return OWN_SHAPE
    ran, whole = plan.cases(grid), replace(plan, only=()).cases(grid)
    for kind in (CaseKind.BENCHMARK, CaseKind.TEST):
        count, of = (sum(case.kind is kind for case in cases) for cases in (ran, whole))
        if count < of:
            words = f"{noun_for(of, f'{kind.value} case')} {noun_for(count, 'was', 'were')}"
            return Reason(ReasonCode.CASES_LEFT_OUT, f"only {count} of {of} {words} run")
    return None


def cases_that_ran(reason: Reason | None) -> str:
    """`1 of 2 cases` from such a reason, `some of the cases` where it does not say how many; else nothing."""
    if reason is None or reason.code is not ReasonCode.CASES_LEFT_OUT:
        return ""
    found = _COUNTS.fullmatch(reason.message)
    return f"{found.group(1)} cases" if found else "some of the cases"
