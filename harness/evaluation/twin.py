"""Twins: workers that never load a submission, and so tell what the clock itself costs here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from harness.errors import MachineError
from harness.evaluation.capture import lag_ns
from harness.evaluation.contract import OutputForm
from harness.evaluation.host import Host
from harness.evaluation.session import Session, died_unloaded, open_session, open_sessions
from harness.evaluation.workers import WorkerFault

Answer = TypeVar("Answer")
LARGEST_BYTES = 256 << 20


class Twin:
    """One that died is replaced: the submission has no part in that. Raises MachineError when that one dies too."""

    def __init__(self, host: Host, session: Session, *, cuda: bool) -> None:
        self._host, self._session, self._cuda = host, session, cuda

    def costs_ns(self, form: OutputForm) -> tuple[int, int]:
        """What a call of nothing costs, and how long after its done word an output of this form lies in its slot.

        On a CUDA device the second is of a call that writes its output, since a copy of what is still in the cache is
        quicker. Of an output that is larger than LARGEST_BYTES, that much is copied, and the rest takes as long a byte.
        """
        if not self._cuda:
            reading = self._ask(lambda session: session.noop_with_output(form.sizes, form.devices))
            return reading.wall_ns, lag_ns(reading)
        overhead_ns = self._ask(Session.noop)
        part = min(1.0, LARGEST_BYTES / max(1, sum(form.sizes)))
        sizes = [math.ceil(size * part) for size in form.sizes]
        reading = self._ask(lambda session: session.noop_with_output(sizes, form.devices, written=True))
        return overhead_ns, round(lag_ns(reading) / part)

    def close(self) -> None:
        self._session.close()

    def _ask(self, question: Callable[[Session], Answer]) -> Answer:
        try:
            return question(self._session)
        except WorkerFault:
            self._session.close()
            self._session = open_session(self._host, "twin", cuda=self._cuda, with_submission=False)
        try:
            question(self._session)  # the first is slower
            return question(self._session)
        except WorkerFault as fault:
            raise died_unloaded(fault) from None


def open_twins(host: Host, count: int, *, cuda: bool) -> list[Twin]:
    """So many twins, or one where there is no room for them. Raises MachineError where that doesn't come up either."""
    try:
        sessions = open_sessions(host, "twin", count, cuda=cuda, with_submission=False)
    except MachineError:
        if count == 1:
            raise
        sessions = open_sessions(host, "twin", 1, cuda=cuda, with_submission=False)
    return [Twin(host, session, cuda=cuda) for session in sessions]
