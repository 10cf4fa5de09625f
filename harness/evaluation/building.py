"""What one worker compiles, for all that follow: each of them would compile every shape anew."""

from __future__ import annotations

import time
from collections.abc import Iterable

from harness.boards.board import Spec, format_spec
from harness.boards.reference import Reference
from harness.evaluation.cases import pack_input
from harness.evaluation.host import Host
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import open_session
from harness.evaluation.workers import WorkerFault


def build(
    host: Host, reference: Reference, cases: Iterable[tuple[Spec, float]], seeds: Seeds, *, cuda: bool, timeout_s: float
) -> str:
    """Fill the compilers' caches of a host by a call of each shape on an input that is used for nothing else; why they
    were not kept, where they were not. Failures of the submission are not told: what follows meets them again.

    `cases` are specs, each with how long its call may take; `timeout_s` is for the import, and for all calls together.
    """
    session = open_session(host, "build", cuda=cuda)
    folder = session.folder
    try:
        session.import_submission(timeout_s)
        deadline = time.monotonic() + timeout_s
        shapes = {format_spec({**spec, "seed": 0}): (spec, call_timeout_s) for spec, call_timeout_s in cases}
        for number, (spec, call_timeout_s) in enumerate(shapes.values()):
            if time.monotonic() > deadline:
                break
            packed = pack_input(reference.generate(spec, seeds.derive("build", number)), host.board)
            try:
                session.call(packed, seeds.random("build", "place", number), call_timeout_s)
            except WorkerFault as fault:
                if fault.fatal:
                    break
    except WorkerFault:
        pass
    finally:
        session.close()
    return host.keep_caches(folder)
