"""The figures of two evaluations side by side, with a verdict for each case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.boards.board import Spec, format_spec
from harness.evaluation.record import CaseKind, CaseResult, Mode, Protocol, Status
from harness.measure.comparison import Verdict
from harness.measure.ranking import RankClass
from harness.measure.statistics import Figure, Interval, case_figure, ratio
from harness.store.rows import EvaluationRow

SAME_WITHIN = 0.02
"""Two times are called the same when the whole interval of their ratio lies within 2 % of one (or within δ)."""


@dataclass(frozen=True)
class Change:
    """From one time to another. `ratio` is new over old, so below one is faster; its interval is None where either
    time has none. `verdict` is None for times that were published, which have no samples to judge by."""

    old: Figure
    new: Figure
    ratio: float
    ratio_interval: Interval | None
    verdict: Verdict | None


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
    """`refusal` says why the figures are not compared; then there are no cases and no score. `offers_measuring` where
    measuring both by turns would tell more: of samples from two sessions, whose noise no interval holds, and of times
    without samples."""

    refusal: str = ""
    cases: tuple[CaseChange, ...] = ()
    score: Change | None = None
    notes: tuple[str, ...] = ()
    offers_measuring: bool = False
    protocol: Protocol | None = None


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
    protocol = new_class.protocol
    published = protocol is Protocol.HOSTED
    score = None
    if old.score is not None and new.score is not None:
        score = _published_change(old.score, new.score) if published else change(old.score, new.score, delta)
    notes = []
    if score is not None and old_class.benchmarks != new_class.benchmarks:
        score = None
        notes.append(f"{_why_other_cases(old, new)}: only cases that both ran are compared, not the scores.")
    changes = [score, *(case.change for case in cases)]
    sessions_differ = (old.id != new.id or old.id is None) and any(each is not None for each in changes)
    if sessions_differ and published:
        notes.append(
            "Both are claims of the file that they were imported from, without samples, so there is no verdict."
        )
    elif sessions_differ:
        notes.append(
            "The samples come from different sessions. Their intervals do not hold the noise between runs, so a "
            f"difference of less than {100 * delta:.2g} % is not called one."
        )
    if old_class.isolation != new_class.isolation:
        notes.append(f"The isolation differs: {old_class.isolation.value}, then {new_class.isolation.value}.")
    return Comparison("", cases, score, tuple(notes), offers_measuring=sessions_differ, protocol=protocol)


def change(old: Figure, new: Figure, delta: float) -> Change:
    """The ratio of two times and the word for it; `delta` is the relative noise between runs.

    Faster or slower: the intervals are apart by more than δ. Same: the ratio's interval lies within ± 2 % (or δ, if
    that is more). Unsure otherwise, and whenever either time has no interval.
    """
    value, interval = ratio(new, old)
    return Change(old, new, value, interval, _verdict(interval, delta))


def _published_change(old: Figure, new: Figure) -> Change:
    return Change(old, new, new.value_ns / old.value_ns, None, None)


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


def _why_other_cases(old: EvaluationRow, new: EvaluationRow) -> str:
    """Why the cases of two evaluations that have scores are not the same. A ranked run is of all cases of its board;
    one of mode `benchmark` may be of some, in records that an earlier harness made."""
    ran = {
        name: Counter(_key(case.spec) for case in row.cases if case.kind is CaseKind.BENCHMARK)
        for name, row in (("old", old), ("new", new))
    }
    for part, whole, row in (("old", "new", old), ("new", "old", new)):
        if row.header.mode is not Mode.LEADERBOARD and ran[part] < ran[whole]:
            return f"{part} ran only {ran[part].total()} of the {ran[whole].total()} cases of {whole}"
    return "The board's benchmarks changed in between"


def _pairs(old: Sequence[CaseResult], new: Sequence[CaseResult]) -> list[tuple[CaseResult | None, CaseResult | None]]:
    """Benchmark cases of equal spec but for the seed, in the order of their indices; of two the new one counts."""
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
    return sorted(pairs, key=_index)


def _index(pair: tuple[CaseResult | None, CaseResult | None]) -> int:
    old, new = pair
    one = new if new is not None else old
    assert one is not None
    return one.index


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
