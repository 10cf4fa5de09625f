"""What one worker compiles, for all that follow: a comparison has many, and each would compile every shape anew."""

from __future__ import annotations

from collections.abc import Iterable

from harness.boards.board import Spec
from harness.boards.reference import Reference
from harness.evaluation.cases import pack_input
from harness.evaluation.host import Host
from harness.evaluation.seeds import Seeds
from harness.evaluation.session import open_session
from harness.evaluation.workers import WorkerFault


def build(host: Host, reference: Reference, specs: Iterable[Spec], seeds: Seeds, *, cuda: bool) -> None:
    """Fill the compilers' caches of a host by a call of each shape on an input that is used for nothing else. Failures
    are not told: the comparison meets them again."""
    board = host.board
    session = open_session(host, "build", cuda=cuda)
    choice = seeds.random("build")
    try:
        session.import_submission(board.test_timeout_s)
        for number, spec in enumerate(specs):
            packed = pack_input(reference.generate(spec, seeds.derive("build", number)), board)
            try:
                session.call(packed, choice, board.benchmark_timeout_s)
            except WorkerFault as fault:
                if fault.fatal:
                    break
    except WorkerFault:
        pass
    finally:
        session.close()
    host.keep_caches(session.folder)
