"""What a board's check says of an output, and which of the timed outputs get the full check."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from harness.boards.reference import BoardCodeError
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.workers import WorkerFault
from harness.measure.stopping import LOOKS

FULL_CHECKS = 2
"""How many timed outputs, chosen in secret among the first 7, get the full check where a spot check does the rest; one
more does between every two later looks, since a worker can count its calls."""


def wrong(message: str) -> WorkerFault:
    return WorkerFault(Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, message or "wrong answer"), fatal=False)


def judge(check: Callable[[], tuple[bool, str]]) -> str:
    """Run a check of the board's; its remark when the output is right, a fault when it is not.

    A check that raises has met an output it did not foresee (the reference passes it: `harness lint`), which is the
    output's fault.
    """
    try:
        good, message = check()
    except BoardCodeError as error:
        raise wrong(f"the board's check could not judge the output: {error.what}") from None
    if not good:
        raise wrong(message)
    return message


def fully_checked(secret: random.Random) -> set[int]:
    """The timed calls whose outputs get the full check where a spot check does the rest."""
    later = (secret.randrange(start, end) for start, end in pairwise(LOOKS))
    return {*secret.sample(range(LOOKS[0]), FULL_CHECKS), *later}
