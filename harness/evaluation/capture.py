"""Taking the output of a timed call out of the shared slots, and what a late one is charged.

The clock ends with the done word, which a dishonest worker can write too early. Two things keep that from paying: the
time that passes between the done word and the moment from which the worker can't change its output counts, less what
that honestly takes; and on a CUDA device the digest that the worker told at that moment must be the snapshot's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from harness.cuda import driver
from harness.cuda.digest import CLOCK_PTX, Digest, Value
from harness.evaluation.clocks import TimedCall
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.evaluation.workers import WorkerFault
from harness.measure.statistics import median


@dataclass(frozen=True)
class Allowance:
    """What may honestly pass between the done word and the moment from which the output is certain: `fixed_ns`, and
    `copies` times what a copy of the same size takes."""

    fixed_ns: int
    copies: float


CUDA_ALLOWANCE = Allowance(fixed_ns=7_000, copies=1.3)
CPU_ALLOWANCE = Allowance(fixed_ns=2_000_000, copies=6.0)
"""Of a single call, beside what a plain copy takes here. On a CPU the answer's way through two processes and a
scheduler is part of it, so single calls are allowed much there; the next bounds what all calls of a case gain."""

CUDA_MEDIAN_ALLOWANCE = Allowance(fixed_ns=1_500, copies=1.05)
CPU_MEDIAN_ALLOWANCE = Allowance(fixed_ns=250_000, copies=1.5)
"""Of the median lag of a case, beside the twin's. As measured, on CPUs with two cores and up to six processes that
want them: docs/trust.md."""

GATE_ALLOWED_NS = 2_000_000
"""How long the gate may take from the reveal to the release: a switch between two processes on the device and a pass
over twice its L2. A worker that skips the gate has no use for that time, since pieces of the input come at its end; it
is charged what it takes beyond it all the same."""

PROBE_BYTES = 128 << 20


@cache
def copy_ns_per_byte(device: str) -> float:
    """How long a large plain copy takes here, per byte copied: the best of five."""
    source = torch.zeros(PROBE_BYTES if device == "cuda" else PROBE_BYTES >> 3, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(5):
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter_ns()
        target.copy_(source)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - started)
    return min(times) / source.numel()


def lag_ns(reading: TimedCall) -> int:
    """How long after its done word a call's worker was committed to its output."""
    return reading.committed_ns - reading.wall_ns


def charged_for_lag_ns(lags_ns: Sequence[int], twin_lags_ns: Sequence[int], allowance: Allowance) -> int:
    """What every call of a case is charged because its outputs lag more than copies of their size by the twin.

    Medians are compared, since on a busy machine any single lag may hold a scheduler's whole slice. For calls of equal
    length, told as done however early, the median time to the done word and the median lag add up to that length, so
    at most the allowance is gained.
    """
    if not lags_ns or not twin_lags_ns:
        return 0
    return max(0, round(median(lags_ns) - allowance.copies * median(twin_lags_ns)) - allowance.fixed_ns)


class Capture:
    """The supervisor's hold on one worker's outputs."""

    def __init__(self, *, cuda: bool) -> None:
        self._cuda = cuda
        self._allowance = CUDA_ALLOWANCE if cuda else CPU_ALLOWANCE
        self._ns_per_byte = copy_ns_per_byte("cuda" if cuda else "cpu")

    def charged_ns(self, reading: TimedCall, snapshot: Sequence[torch.Tensor]) -> int:
        """The call's time: to the done word, or later where the worker committed itself to its output (flat uint8, as
        its snapshot) later than is explained by its size, and what the gate took beyond its due.

        Raises WorkerFault where the output is not the one whose digest the worker told.
        """
        if self._cuda and digest_of(snapshot) != reading.digest:
            text = (
                "the output is not the one that the worker had told the digest of when it said that the call was done"
            )
            raise WorkerFault(Status.REJECTED, Reason(ReasonCode.LATE_OUTPUT, text))
        nbytes = sum(flat.numel() for flat in snapshot)
        honest_ns = self._allowance.fixed_ns + round(self._allowance.copies * self._ns_per_byte * nbytes)
        late_ns = max(reading.wall_ns, reading.committed_ns - honest_ns)
        return late_ns + max(0, reading.gate_ns - GATE_ALLOWED_NS)


@cache
def device_digest() -> Digest:
    """The supervisor's own."""
    torch.cuda.synchronize()  # makes torch's context current
    return Digest(driver.load_module(CLOCK_PTX))


def digest_of(snapshot: Sequence[torch.Tensor]) -> Value:
    """Of those of these flat tensors that are in device memory."""
    digest = device_digest()
    stream = torch.cuda.current_stream().cuda_stream
    digest.launch([(flat.data_ptr(), flat.numel()) for flat in snapshot if flat.is_cuda], stream)
    return digest.value(stream)
