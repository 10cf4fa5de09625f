"""Processes as a level of a comparison: who meets whom, and error rates on simulated runs."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from harness.measure.comparison import (
    UNITS,
    Judgement,
    Ratio,
    Unit,
    Verdict,
    Why,
    enough,
    judge,
    judge_all,
    judge_ratio,
    null_ratio_of_logs,
    ratio_of_logs,
)
from harness.measure.processes import (
    PROCESSES,
    Processes,
    foreseen_half_width,
    mean_of,
    null_left,
    null_pair,
    pair,
    parts,
)
from harness.measure.signed_rank import hodges_lehmann
from harness.measure.statistics import Interval

TRUE = math.log(1.01)


@pytest.mark.parametrize("processes", PROCESSES)
def test_every_process_has_one_unit_of_a_cycle_and_meets_each_of_the_others_alike(processes: int) -> None:
    for start in range(0, 4 * processes, processes):
        cycle = [pair(unit, processes) for unit in range(start, start + processes)]
        assert sorted(a for a, _ in cycle) == sorted(b for _, b in cycle) == list(range(processes))
    met = Counter(pair(unit, processes) for unit in range(3 * processes**2))
    assert set(met.values()) == {3}
    assert len(met) == processes**2


def test_a_null_run_goes_round_a_ring() -> None:
    assert [null_pair(unit, 4) for unit in range(5)] == [(0, 1), (1, 2), (2, 3), (3, 0), (0, 1)]
    assert [null_pair(unit, 2) for unit in range(3)] == [(0, 1), (1, 0), (0, 1)]
    assert [null_pair(unit, 1) for unit in range(3)] == [(0, 1)] * 3


def test_the_fewest_units_reach_every_process_and_a_run_ends_with_a_whole_cycle() -> None:
    quick = [Unit(1e5, 1e5, 1e5, 1e5)] * UNITS[-1]
    for processes in PROCESSES:
        fewest = max(UNITS[0], processes)
        of = parts([0.0] * fewest, processes).processes
        assert of is None if processes == 1 else of == Processes((0.0,) * processes, (0.0,) * processes)
        ends = [count for count in range(len(quick)) if enough(quick[:count], 1e9, 0.0, processes)]
        assert ends[0] == fewest
        assert all(count % processes == 0 for count in ends)


def test_what_processes_add_is_taken_off() -> None:
    adds = [0.03, -0.01, 0.0, 0.005]
    logs = [adds[b] - adds[a] for a, b in (pair(unit, 4) for unit in range(64))]
    made_of = parts(logs, 4)
    assert made_of.left == pytest.approx([0.0] * 64)
    assert made_of.processes is not None
    assert made_of.processes.of_b == pytest.approx([add - sum(adds) / 4 for add in adds])
    assert made_of.processes.of_a == pytest.approx([sum(adds) / 4 - add for add in adds])
    ring = [adds[b] - adds[a] for a, b in (null_pair(unit, 4) for unit in range(64))]
    assert null_left(ring, 4) == pytest.approx([0.0] * 64)
    assert null_left(ring[:16], 4) == ring[:16]
    assert parts(logs[:16], 4).left == logs[:16]  # four cycles are too few to tell the sides from one another
    assert parts(logs, 1).left == null_left(logs, 1) == logs


def test_what_is_far_out_moves_no_process() -> None:
    """Every seventh unit is off by half, which moves the mean of a process by 7 %."""
    noise = random.Random(3)
    logs = [noise.gauss(0.0, 0.002) + (0.5 if unit % 7 == 3 else 0.0) for unit in range(128)]
    made_of = parts(logs, 4)
    assert made_of.processes is not None
    assert max(map(abs, (*made_of.processes.of_a, *made_of.processes.of_b))) < 0.003
    assert null_ratio_of_logs(logs, 4).half_width < 0.002


def test_the_half_width_by_hand() -> None:
    """Deviations of 1 % and 2 %, pooled, by Student's t of 6 degrees of freedom and the root of two of four."""
    one = Processes((0.01, -0.01, 0.01, -0.01), (0.02, -0.02, 0.02, -0.02))
    variance = (4 * 0.01**2 + 4 * 0.02**2) / 6
    assert one.half_width == pytest.approx(3.707 * math.sqrt(variance / 2))
    widened = Ratio(1.1, Interval(1.1 / 1.001, 1.1 * 1.001), one)
    assert math.log(widened.interval.high / 1.1) == pytest.approx(one.half_width)
    assert math.log(1.1 / widened.interval.low) == pytest.approx(one.half_width)
    wide = Ratio(1.1, Interval(1.1 / 1.1, 1.1 * 1.1), one)
    assert wide.interval == wide.by_units
    assert widened.rests_on_processes
    assert Ratio(1.1, widened.by_units).interval == widened.by_units


def test_processes_that_differ_do_not_make_versions_differ() -> None:
    """A's first process alone is 2.4 % slower, all its life, and there is no noise at all; then all four by 0.6 %."""
    still = [Unit(1e5, 1e5, 1e5, 1e5)] * 64

    def units(of_process: dict[int, float]) -> list[Unit]:
        b_ns = [1e5 * math.exp(-of_process.get(pair(unit, 4)[0], 0.0)) for unit in range(64)]
        return [Unit(1e5, b, b, 1e5) for b in b_ns]

    assert judge(units({0: 0.024}), still, 4).verdict is Verdict.UNSURE
    assert judge(units(dict.fromkeys(range(4), 0.006)), still, 4).verdict is Verdict.FASTER


def test_the_score_holds_what_a_process_adds_to_every_case() -> None:
    """What is particular to a process does not average out over cases that it ran all of."""
    case = Ratio(1.02, Interval(1.019, 1.021), Processes((0.02, 0.0, 0.0, 0.0), (0.0,) * 4))
    null = Ratio(1.0, Interval(0.999, 1.001))
    both = judge_all([judge_ratio(case, null)] * 9, [1.0] * 9)
    assert both is not None
    assert both.ratio is not None
    assert both.ratio.processes is not None
    assert both.ratio.processes.half_width == pytest.approx(case.processes.half_width)  # type: ignore[union-attr]
    assert mean_of([None, case.processes], [0.5, 0.5]) == Processes((0.01, 0.0, 0.0, 0.0), (0.0,) * 4)
    assert mean_of([None, None], [0.5, 0.5]) is None
    fewer = Processes((0.0, 0.04), (0.01, 0.0))  # where the device's memory held no more
    assert mean_of([fewer, case.processes], [0.5, 0.5]) == Processes((0.01, 0.02), (0.005, 0.0))


def test_the_null_run_ends_where_more_units_would_not_help() -> None:
    def null(adds: tuple[float, ...], count: int) -> list[Unit]:
        noise = random.Random(5)
        logs = [adds[b] - adds[a] + noise.gauss(0, 0.008) for a, b in (null_pair(unit, 4) for unit in range(count))]
        return [Unit(1e5, 1e5 * math.exp(log), 1e5 * math.exp(log), 1e5) for log in logs]

    far, near = (0.01, -0.01, 0.01, -0.01), (0.0,) * 4
    ends = {adds: next(n for n in UNITS if enough(null(adds, n), 0.0, 1e9, 4)) for adds in (far, near)}
    assert ends == {far: 32, near: 64}
    logs = [unit.log_ratio for unit in null(far, 64)]
    assert foreseen_half_width(logs, 4) == pytest.approx(3.707 * math.sqrt(4 * 0.02**2 / 8 / 2), rel=0.1)
    assert foreseen_half_width(logs, 1) == 0.0


def simulated(
    count: int, processes: int, rng: random.Random, *, process: float, unit: float, slower: float = 0.0
) -> Judgement:
    """A comparison of fresh processes, each of which adds what it adds."""
    a = [rng.gauss(0, process) for _ in range(max(2, processes))]
    b = [rng.gauss(slower, process) for _ in range(processes)]
    logs = [b[j] - a[i] + rng.gauss(0, unit) for i, j in (pair(u, processes) for u in range(count))]
    null = [a[j] - a[i] + rng.gauss(0, unit) for i, j in (null_pair(u, processes) for u in range(count))]
    return judge_ratio(ratio_of_logs(logs, processes), null_ratio_of_logs(null, processes))


def verdicts(times: int, *arguments: int, slower: float = 0.0, **noise: float) -> Counter[Verdict | None]:
    rng = random.Random(1)
    return Counter(simulated(*arguments, rng, slower=slower, **noise).verdict for _ in range(times))


@pytest.mark.parametrize("count", [8, 16, 64])
@pytest.mark.parametrize("unit", [0.01, 0.001])
def test_a_against_a_in_different_processes_is_rarely_called_different(count: int, unit: float) -> None:
    """At most 1 %; the bound leaves room for chance. One process of each, as it once was, errs in 15 %."""
    said = verdicts(400, count, 4, process=0.004, unit=unit)
    assert said[Verdict.SLOWER] + said[Verdict.FASTER] <= 8


def test_of_one_process_each_it_is_often_called_different() -> None:
    said = verdicts(100, 64, 1, process=0.004, unit=0.01)
    assert said[Verdict.SLOWER] + said[Verdict.FASTER] > 8


@pytest.mark.parametrize(("processes", "process"), [(4, 0.001), (8, 0.002)])
def test_one_per_cent_is_found_where_processes_differ_little(processes: int, process: float) -> None:
    said = verdicts(100, 128, processes, process=process, unit=0.004, slower=TRUE)
    assert said[Verdict.SLOWER] >= 95


def test_fewer_units_than_processes_tell_nothing() -> None:
    few = [Unit(1e5, 1e5, 1e5, 1e5)] * 10
    assert judge(few, few, 16).why is Why.TOO_FEW
    with pytest.raises(ValueError, match="10 units, of at least 16"):
        ratio_of_logs([0.0] * 10, 16)


def test_a_null_interval_holds_one_as_often_as_it_says() -> None:
    """At exactly eight cycles, where the fit takes an eighth of the spread: 99 % of runs, and the bound leaves room."""
    rng = random.Random(4)
    missed = 0
    for _ in range(300):
        a = [rng.gauss(0, 0.004) for _ in range(8)]
        logs = [a[j] - a[i] + rng.gauss(0, 0.01) for i, j in (null_pair(unit, 8) for unit in range(64))]
        interval = null_ratio_of_logs(logs, 8).interval
        missed += not interval.low <= 1 <= interval.high
    assert missed <= 8


def test_halving_ends_at_a_centre_that_is_nothing() -> None:
    """Readings on a coarse grid: most averages are exactly 0, where halving once went on for a thousand steps."""
    values = [0.0] * 150 + [0.001] * 50 + [-0.001] * 50
    assert hodges_lehmann(values) == 0.0
    assert hodges_lehmann([value + 1e-4 for value in values]) == pytest.approx(1e-4)
