"""What an evaluation says: values only, no torch. The store keeps these, every screen is made from them.

Raw samples are kept in nanoseconds; every figure is derived from them (see `harness.measure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.boards.board import GridName, RankBy, Spec


class Mode(StrEnum):
    """What is run."""

    TEST = "test"  # the tests grid, every case reported
    BENCHMARK = "benchmark"  # the benchmarks grid, correctness and time, not ranked
    LEADERBOARD = "leaderboard"  # tests, then benchmarks on fresh secret seeds; ranked


class Protocol(StrEnum):
    """How it is run and timed. Figures of different protocols are never compared."""

    SEALED = "sealed-1"
    POPCORN = "popcorn"
    HOSTED = "hosted"  # imported from a file in the published data's schema, by whomever; not measured or checked here


class Status(StrEnum):
    """How an evaluation, or one case of it, ended."""

    RUNNING = "running"  # only while it runs; a dead evaluation becomes interrupted
    PASSED = "passed"
    FAILED = "failed"  # wrong answer, exception, contract
    REJECTED = "rejected"  # a rule of trust was broken
    ERROR = "error"  # crash, CUDA error, out of memory, output limit
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


class ReasonCode(StrEnum):
    """Why a case or an evaluation did not pass, or why a passed one does not rank."""

    WRONG_ANSWER = "wrong_answer"
    CONTRACT = "contract"  # type, dtype, shape, device, aliasing, non-finite
    INPUT_CHANGED = "input_changed"
    EXCEPTION = "exception"
    IMPORT_FAILED = "import_failed"
    NO_ENTRY = "no_entry"  # the file defines no custom_kernel
    CRASH = "crash"  # the worker ended by itself or by a signal
    CUDA_ERROR = "cuda_error"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    BELOW_FLOOR = "below_floor"
    LATE_OUTPUT = "late_output"  # the output was still being written after its call had said that it was done
    CHANNEL = "channel"  # the worker broke the protocol between the two processes
    COMPILE_FAILED = "compile_failed"
    HARNESS = "harness"  # the board or the harness failed, not the submission
    UNSEALED_PROTOCOL = "unsealed_protocol"
    INTERPRETED = "interpreted"
    NOT_ISOLATED = "not_isolated"
    CASES_LEFT_OUT = "cases_left_out"  # --case: see harness.evaluation.left_out
    TOO_NOISY = "too_noisy"  # the score's interval reaches zero
    IMPORTED = "imported"  # see Protocol.HOSTED
    INTERRUPTED = "interrupted"


class CaseKind(StrEnum):
    TEST = "test"
    BENCHMARK = "benchmark"


class StopRule(StrEnum):
    """Why sampling of a case ended."""

    PRECISE = "precise"  # the interval was narrow enough
    BUDGET = "budget"  # the case's time was spent
    MOST = "most"  # the largest sample count was reached


class IsolationLevel(StrEnum):
    """What separated the submission from the machine."""

    NONE = "none"
    UID = "uid"
    NAMESPACES = "namespaces"
    BUBBLEWRAP = "bubblewrap"
    UNKNOWN = "unknown"  # of an imported result


@dataclass(frozen=True)
class Reason:
    code: ReasonCode
    message: str


@dataclass(frozen=True)
class Samples:
    """The timed calls of one case, in order; one entry per call in every column.

    `wall_ns` is the supervisor's clock from release to done; `overhead_ns` the same for an interleaved no-op call of
    the twin worker; `events_ns` the device events' reading (empty on CPU), a cross-check that never makes the score.
    The calls went through `workers` processes by turns, call i through process i mod `workers`, and so did the no-op
    calls through as many twins.
    """

    wall_ns: tuple[int, ...]
    overhead_ns: tuple[int, ...] = ()
    events_ns: tuple[int, ...] = ()
    workers: int = 1


@dataclass(frozen=True)
class CaseResult:
    kind: CaseKind
    index: int
    spec: Spec
    status: Status
    reason: Reason | None = None
    traceback: str = ""
    """The submission's own traceback, whole, as text; never ours."""
    samples: Samples | None = None
    stop_rule: StopRule | None = None
    flops: float | None = None
    bytes_moved: float | None = None
    speed_of_light_ns: float | None = None
    floor_ns: float | None = None
    notes: tuple[str, ...] = ()
    """Further remarks, e.g. the residual that a check reports, or a disagreement of events and supervisor."""
    seconds: float = 0.0
    """Wall time that this case took, generation and checks included."""


@dataclass(frozen=True)
class Device:
    """The device an evaluation ran on. `name` is what rank classes compare, e.g. `NVIDIA H200` or the CPU's model."""

    kind: str  # "cuda" or "cpu"
    name: str
    details: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationHeader:
    """What is known before the first case runs."""

    mode: Mode
    protocol: Protocol
    grid: GridName
    device: Device
    isolation: IsolationLevel
    interpreted: bool
    seed: int
    """Root of every secret seed of this evaluation; stored so that a failure can be repeated, never shown to the
    worker."""
    versions: Mapping[str, str]
    log: str
    """Path of the folder with the worker's logs."""
    cases_planned: int
    ranking_by: RankBy = RankBy.GEOM
    """How the board makes one score of its cases, kept here because a board may be gone or changed later."""


@dataclass(frozen=True)
class EvaluationOutcome:
    """How it ended. Scores and ranks are derived, not stored here."""

    status: Status
    reason: Reason | None
    rank_reason: Reason | None = None
    """Why a passed evaluation takes no part in the ranking; None when it does."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Where the wall time went, by phase name, in seconds."""
    state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`before` and `after`: clocks, temperature, power, load; see `harness.evaluation.state`."""


@dataclass(frozen=True)
class Notice:
    """A warning for the person who waits; nothing is derived from it."""

    text: str


@dataclass(frozen=True)
class Progress:
    """A line for the person who waits; nothing is derived from it."""

    text: str
    done: int
    total: int


Event = EvaluationHeader | Progress | Notice | CaseResult | EvaluationOutcome
"""What an evaluation yields: a header, then progress, warnings and case results, then one outcome."""
