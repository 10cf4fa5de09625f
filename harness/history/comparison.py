"""The figures of two evaluations side by side, with a verdict for each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.boards.board import Spec, format_spec
from harness.evaluation.record import CaseKind, CaseResult, Status
from harness.measure.comparison import Verdict
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure, Interval, case_figure, ratio
from harness.store.rows import EvaluationRow

SAME_WITHIN = 0.02
"""Two times are called the same when the whole interval of their ratio lies within 2 % of one (or within δ)."""


@dataclass(frozen=True)
class Change:
    """From one time to another. `ratio` is new over old, so below one is faster; its interval is None where either
    time has none."""

    old: Figure
    new: Figure
    ratio: float
    ratio_interval: Interval | None
    verdict: Verdict


@dataclass(frozen=True)
class CaseChange:
    """One benchmark case in both evaluations; None on the side that did not run it or has no figure for it."""

    spec: Spec
    old_index: int | None
    new_index: int | None
    old: Figure | None
    new: Figure | None
    old_status: Status | None
    new_status: Status | None
    change: Change | None


@dataclass(frozen=True)
class Comparison:
    """`refusal` says why the figures are not compared; then there are no cases and no score. `sessions_differ` when
    the samples come from two sessions, whose noise no interval holds."""

    refusal: str = ""
    cases: tuple[CaseChange, ...] = ()
    score: Change | None = None
    notes: tuple[str, ...] = ()
    sessions_differ: bool = False


def compare(old: EvaluationRow, new: EvaluationRow, old_board: str, new_board: str) -> Comparison:
    """Compare case by case what may be compared. Times of another board, grid, device or protocol, and those of an
    interpreter, are never set against each other."""
    old_class, new_class = old.rank_class(old_board), new.rank_class(new_board)
    refusal = _refusal(old_class, new_class)
    if not refusal and (old.header.interpreted or new.header.interpreted):
        refusal = "a kernel run by an interpreter has no time worth comparing"
    if refusal:
        return Comparison(refusal=refusal)
    delta = new_class.delta
    cases = tuple(_case_change(before, after, delta) for before, after in _pairs(old.cases, new.cases))
    score = change(old.score, new.score, delta) if old.score is not None and new.score is not None else None
    notes = []
    if score is not None and old_class.benchmarks != new_class.benchmarks:
        score = None
        notes.append(
            "The board's benchmarks changed in between: only cases that both ran are compared, not the scores."
        )
    changes = [score, *(case.change for case in cases)]
    sessions_differ = (old.id != new.id or old.id is None) and any(each is not None for each in changes)
    if sessions_differ:
        notes.append(
            "The samples come from different sessions. Their intervals do not hold the noise between runs, so a "
            f"difference of less than {100 * delta:.2g} % is not called one."
        )
    if old_class.isolation != new_class.isolation:
        notes.append(f"The isolation differs: {old_class.isolation.value}, then {new_class.isolation.value}.")
    return Comparison(cases=cases, score=score, notes=tuple(notes), sessions_differ=sessions_differ)


def change(old: Figure, new: Figure, delta: float) -> Change:
    """The ratio of two times and the word for it; `delta` is the relative noise between runs.

    Faster or slower: the intervals are apart by more than δ. Same: the ratio's interval lies within ± 2 % (or δ, if
    that is more). Unsure otherwise, and whenever either time has no interval.
    """
    value, interval = ratio(new, old)
    return Change(old, new, value, interval, _verdict(interval, delta))


def _verdict(interval: Interval | None, delta: float) -> Verdict:
    if interval is None:
        return Verdict.UNSURE
    if interval.high < 1 / (1 + delta):
        return Verdict.FASTER
    if interval.low > 1 + delta:
        return Verdict.SLOWER
    within = max(SAME_WITHIN, delta)
    return Verdict.SAME if 1 / (1 + within) <= interval.low and interval.high <= 1 + within else Verdict.UNSURE


def _refusal(old: RankClass, new: RankClass) -> str:
    differing = [
        f"{name} ({before}, then {after})"
        for name, before, after in (
            ("board", old.leaderboard, new.leaderboard),
            ("grid", old.grid.value, new.grid.value),
            ("device", old.device, new.device),
            ("protocol", old.protocol.value, new.protocol.value),
        )
        if before != after
    ]
    return f"the times are not comparable: another {', '.join(differing)}" if differing else ""


def _pairs(old: Sequence[CaseResult], new: Sequence[CaseResult]) -> list[tuple[CaseResult | None, CaseResult | None]]:
    """Benchmark cases of equal spec but for the seed, in the new order, then those that only the old one has."""
    unmatched: dict[str, list[CaseResult]] = {}
    for case in old:
        if case.kind is CaseKind.BENCHMARK:
            unmatched.setdefault(_key(case.spec), []).append(case)
    pairs: list[tuple[CaseResult | None, CaseResult | None]] = []
    for case in new:
        if case.kind is CaseKind.BENCHMARK:
            same = unmatched.get(_key(case.spec))
            pairs.append((same.pop(0) if same else None, case))
    pairs += [(case, None) for cases in unmatched.values() for case in cases]
    return pairs


def _key(spec: Spec) -> str:
    return format_spec({name: value for name, value in spec.items() if name != "seed"})


def _case_change(old: CaseResult | None, new: CaseResult | None, delta: float) -> CaseChange:
    one = new if new is not None else old
    assert one is not None
    before, after = _passed_figure(old), _passed_figure(new)
    return CaseChange(
        spec=one.spec,
        old_index=None if old is None else old.index,
        new_index=None if new is None else new.index,
        old=before,
        new=after,
        old_status=None if old is None else old.status,
        new_status=None if new is None else new.status,
        change=None if before is None or after is None else change(before, after, delta),
    )


def _passed_figure(case: CaseResult | None) -> Figure | None:
    return case_figure(case.samples) if case is not None and case.status is Status.PASSED else None
