"""What comes out of the store: values only, shared by the screens, the history and the commands that write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.boards.board import GridName
from harness.evaluation.record import (
    CaseResult,
    EvaluationHeader,
    EvaluationOutcome,
    Mode,
    Protocol,
    Reason,
    Status,
)
from harness.measure.noise import Noise
from harness.measure.ranking import Rank, RankClass
from harness.measure.scoring import benchmarks_digest, evaluation_score
from harness.measure.statistics import Figure

LONGEST_NAME_BYTES = 500
"""Of a name that rows are found by: PostgreSQL's indexes take 2,700 bytes for all columns together."""


@dataclass(frozen=True)
class SubmissionRow:
    """A submitted file. `previous` is the id of the same user's submission before it, by time, on the same board."""

    id: int
    leaderboard: str
    user: str
    file_name: str
    sha256: str
    created_at: datetime
    gpus: tuple[str, ...] = ()
    previous: int | None = None
    imported: bool = False
    """From a file in the published data's schema, not submitted here."""


@dataclass(frozen=True)
class Note:
    """A remark on a submission."""

    id: int
    created_at: datetime
    text: str


@dataclass(frozen=True)
class Standing:
    """The place of a user in a ranking today, and the submission by which they hold it."""

    rank: Rank
    submission_id: int


@dataclass(frozen=True)
class EvaluationRow:
    """An evaluation with its cases. `id` and `submission_id` are None for one that is recorded nowhere.

    `outcome.status` is `running` until it ends. `rank` is the place its score holds against the best of every other
    user in its rank class, None when it does not rank.
    """

    id: int | None
    submission_id: int | None
    header: EvaluationHeader
    outcome: EvaluationOutcome
    cases: tuple[CaseResult, ...]
    score: Figure | None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    rank: Rank | None = None
    standing: Standing | None = None
    """The place of its user in its rank class, None when it does not rank itself."""
    noise: Noise | None = None
    """The noise between runs that was calibrated for its rank class, if it was."""

    @classmethod
    def unrecorded(
        cls, header: EvaluationHeader, outcome: EvaluationOutcome, cases: Sequence[CaseResult]
    ) -> EvaluationRow:
        """The row of an evaluation that no store knows, as `harness run` makes them."""
        return cls(None, None, header, outcome, tuple(cases), evaluation_score(header, outcome, cases))

    def rank_class(self, leaderboard: str) -> RankClass:
        header = self.header
        return RankClass(
            leaderboard,
            header.grid,
            header.device.kind,
            header.device.name,
            header.protocol,
            header.isolation,
            benchmarks_digest(self.cases),
            self.noise,
        )


@dataclass(frozen=True)
class HistoryRow:
    """One evaluation of one submission, without its cases; a submission without an evaluation has None from
    `evaluation_id` on."""

    id: int
    leaderboard: str
    user: str
    file_name: str
    sha256: str
    created_at: datetime
    evaluation_id: int | None
    mode: Mode | None
    status: Status | None
    reason: Reason | None
    rank_reason: Reason | None
    rank_class: RankClass | None
    interpreted: bool
    score: Figure | None
    rank_then: int | None = None
    """The rank that the score held when its evaluation ended, against the best of every other user in its class."""

    @property
    def comparable(self) -> tuple[str, GridName, str, str, str, Protocol] | None:
        """What must agree before two scores are compared; None when this one is compared with nothing."""
        if self.rank_class is None or self.score is None or self.interpreted:
            return None
        c = self.rank_class
        return c.leaderboard, c.grid, c.benchmarks, c.device_kind, c.device, c.protocol
