"""What the sealed clock itself costs on this device: calls of nothing in a worker that never loads a submission."""

from __future__ import annotations

from pathlib import Path

from harness.boards.board import Board
from harness.evaluation.host import Host
from harness.evaluation.record import IsolationLevel
from harness.evaluation.session import Session
from harness.evaluation.workers import ForkServer
from harness.measure.statistics import median

CALLS = 201
UNCOUNTED = 20
"""First calls, in which code and data come into caches."""


def noop_ns(
    board: Board, *, cuda: bool, isolation: IsolationLevel, logs: Path, server: ForkServer
) -> tuple[float, float]:
    """The median of a call of nothing, and half the distance from the 10th to the 90th percentile, in ns.

    `board` only says what is kept from the worker; nothing of it is run. Raises MachineError where no worker starts.
    """
    with Host(board, "", cuda=cuda, isolation=isolation, logs=logs, server=server) as host:
        twin = Session(host, "twin", cuda=cuda, with_submission=False)
        try:
            costs = sorted([twin.noop() for _ in range(UNCOUNTED + CALLS)][UNCOUNTED:])
        finally:
            twin.close()
    return median(costs), (costs[-CALLS // 10] - costs[CALLS // 10]) / 2
