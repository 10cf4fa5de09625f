"""The devices of a command: held while it runs on them, so that no two measure on one and every part uses the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness.boards.board import GridName, gpus_needed
from harness.cli.common import say
from harness.evaluation.claim import VISIBLE, Claim, claim_device, claim_one_of, devices
from harness.evaluation.plan import Plan
from harness.evaluation.record import Protocol


@contextmanager
def device_held() -> Iterator[None]:
    """One device for this block, the only one that CUDA shows; before anything of CUDA is asked."""
    claim = claim_device(say)
    try:
        yield
    finally:
        if claim is not None:
            claim.release()


def hold_devices(plan: Plan) -> list[Claim]:
    """As many as the plan's cases take, held until this process ends, and no other is shown; all there are, where
    these are fewer."""
    count = 1
    if plan.board.multi_gpu and plan.protocol is Protocol.POPCORN:
        count = gpus_needed(case.spec for case in plan.cases(plan.grid or GridName.FULL))
    if count == 1:
        claim = claim_device(say)
        return [] if claim is None else [claim]
    names = devices()[:count]
    # One by one in an order that is everybody's: no two wait for one another.
    claims = [claim for claim in (claim_one_of([name], say) for name in sorted(names)) if claim is not None]
    if names:
        os.environ[VISIBLE] = ",".join(names)
    return claims
