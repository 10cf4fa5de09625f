"""The result screen and its JSON document."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import sample_store
from rich.console import Console

from harness.cli.benchmark_table import processes_told
from harness.cli.report import evaluation_document, render_evaluation
from harness.evaluation.record import (
    CaseKind,
    CaseResult,
    EvaluationOutcome,
    IsolationLevel,
    Mode,
    Reason,
    ReasonCode,
    Samples,
    Status,
)
from harness.measure.statistics import case_figure
from harness.store.rows import EvaluationRow


def screen(evaluation: EvaluationRow, width: int = 80, *, with_notes: bool = False, told: Sequence[str] = ()) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, highlight=False)
    render_evaluation(console, None, evaluation, with_notes=with_notes, told=told)
    assert all(len(line) <= width for line in text.getvalue().splitlines())
    return text.getvalue()


def row(*cases: object, outcome: EvaluationOutcome = sample_store.PASSED, **header: object) -> EvaluationRow:
    return EvaluationRow.unrecorded(replace(sample_store.HEADER, **header), outcome, cases)  # type: ignore[arg-type]


CASE_KEYS = [
    "kind",
    "index",
    "spec",
    "status",
    "message",
    "traceback",
    "notes",
    "median_us",
    "ci_us",
    "samples",
    "processes",
    "events_us",
    "speed_of_light_us",
]
EVALUATION_KEYS = [
    "id",
    "mode",
    "protocol",
    "grid",
    "device",
    "isolation",
    "status",
    "reason",
    "score_us",
    "score_ci_us",
    "rank",
    "seed",
    "versions",
    "log",
    "phases_s",
    "state",
    "cases",
]


def test_document_has_the_stated_shape() -> None:
    case = replace(sample_store.benchmark_case(0, 100.0), speed_of_light_ns=25_000.0)
    assert case.samples is not None
    case = replace(case, samples=replace(case.samples, events_ns=(99_000,) * 14 + (98_000,)))
    document = json.loads(json.dumps(evaluation_document(None, row(case)), allow_nan=False))
    assert document["submission"] is None
    evaluation = document["evaluation"]
    assert list(evaluation) == EVALUATION_KEYS
    assert evaluation["device"] == "Intel(R) Xeon(R) Processor @ 2.10GHz"
    assert (evaluation["status"], evaluation["reason"], evaluation["rank"]) == ("passed", None, None)
    assert evaluation["seed"] == 4_611_686_018_427_387_905
    (part,) = evaluation["cases"]
    assert list(part) == CASE_KEYS
    figure = case_figure(case.samples)
    assert figure is not None
    assert figure.interval_ns is not None
    assert part["median_us"] == figure.value_ns / 1e3 == 100.0
    assert part["ci_us"] == [figure.interval_ns.low / 1e3, figure.interval_ns.high / 1e3]
    assert (part["samples"], part["events_us"], part["speed_of_light_us"]) == (15, 99.0, 25.0)
    assert evaluation["score_us"] == 100.0


def test_document_of_a_failure() -> None:
    wrong = Reason(ReasonCode.WRONG_ANSWER, "3 of 9 wrong")
    case = sample_store.test_case(0, status=Status.FAILED, reason=wrong, spec={"x": float("nan"), "m": (1, (2,))})
    document = evaluation_document(None, row(case, outcome=EvaluationOutcome(Status.FAILED, wrong)))
    evaluation = json.loads(json.dumps(document, allow_nan=False))["evaluation"]
    assert evaluation["reason"] == {"code": "wrong_answer", "message": "3 of 9 wrong"}
    assert evaluation["score_us"] is None
    part = evaluation["cases"][0]
    assert (part["message"], part["traceback"], part["median_us"], part["samples"]) == ("3 of 9 wrong", "", None, 0)
    assert part["spec"] == {"x": "nan", "m": [1, [2]]}


def test_passed_screen() -> None:
    text = screen(row(sample_store.test_case(0), *(sample_store.benchmark_case(i, 100.0) for i in range(3))))
    assert "PASSED   score 100.00 µs ± 0.5 %" in text
    assert "tests: 1 of 1 passed" in text
    assert "1 batch: 64; n: 64; cond: 2 100.00 µs ± 0.8 % 15" in " ".join(text.split())
    assert "1 of 5 cases not run" in text
    assert "time: start 1.2 s, tests 2.5 s, benchmarks 4.0 s" in text


def test_an_unranked_run_says_so() -> None:
    reason = Reason(ReasonCode.NOT_ISOLATED, "no sandbox here")
    text = screen(row(sample_store.benchmark_case(0, 1.0), outcome=replace(sample_store.PASSED, rank_reason=reason)))
    assert "not ranked: no sandbox here\n" in text
    assert "not ranked: benchmark mode" in screen(row(sample_store.benchmark_case(0, 1.0), mode=Mode.BENCHMARK))


def test_equal_failures_are_told_once_and_the_rest_is_counted() -> None:
    same = Reason(ReasonCode.WRONG_ANSWER, "all zeros")
    cases = [sample_store.test_case(i, status=Status.FAILED, reason=same) for i in range(4)]
    cases += [
        sample_store.test_case(i, status=Status.FAILED, reason=Reason(ReasonCode.EXCEPTION, f"{chr(93 + i)} is gone"))
        for i in range(4, 14)
    ]
    text = screen(row(*cases, outcome=EvaluationOutcome(Status.FAILED, same)))
    assert text.count("all zeros") == 1
    assert "test 0–3: failed" in text
    assert "d is gone" in text
    assert "e is gone" not in text
    assert "… 6 further kinds of failure" in text


def test_only_the_end_of_a_long_traceback() -> None:
    reason = Reason(ReasonCode.EXCEPTION, "boom")
    traceback = "".join(f"frame {number}\n" for number in range(100)) + "ValueError: boom\n"
    text = screen(
        row(sample_store.test_case(0, status=Status.FAILED, reason=reason, traceback=traceback), mode=Mode.TEST)
    )
    assert "… 89 lines before" in text
    assert "frame 89" in text
    assert "frame 88" not in text
    assert "  ValueError: boom" in text


def test_a_reason_that_no_case_tells_is_shown() -> None:
    reason = Reason(ReasonCode.IMPORT_FAILED, "No module named 'cutlass'")
    assert "No module named 'cutlass'\n" in screen(row(outcome=EvaluationOutcome(Status.FAILED, reason)))


def test_speed_of_light_and_a_meaningless_time() -> None:
    lit = replace(sample_store.benchmark_case(0, 100.0), speed_of_light_ns=25_000.0)
    dark = replace(sample_store.benchmark_case(1, 1.0), samples=Samples((10,) * 7, (20,) * 7))
    text = screen(row(lit, dark))
    assert "of light" in text
    assert "25 %" in text
    assert "PASSED\n" in text  # a case without a figure leaves no score
    told = (
        "no score: benchmark 1 took no longer than a call of nothing: too short, or this machine too busy, to be timed"
    )
    assert told in " ".join(text.split())


def noisy(index: int) -> CaseResult:
    """Fifteen calls of a median of 104.5 ms whose no-op calls differ by more than that."""
    overhead = (1_000_000,) * 4 + (60_000_000,) * 7 + (160_000_000,) * 4
    return replace(sample_store.benchmark_case(index, 1.0), samples=Samples((106_000_000,) * 15, overhead))


def test_a_score_too_noisy_for_an_interval_says_so_and_has_two_digits() -> None:
    shown = screen(row(sample_store.benchmark_case(0, 123.456), noisy(1)))
    assert "PASSED   score 3.6 ms (too noisy for an interval)\n" in shown  # sqrt(0.123456 · 104.5) is 3.59 ms
    assert "1 batch: 64; n: 64; cond: 2 100 ms too noisy 15" in " ".join(shown.split())
    assert "±" not in next(line for line in shown.splitlines() if line.startswith("score: "))
    assert "−" not in shown  # nothing reaches below zero


def test_six_calls_are_the_fewest_for_an_interval() -> None:
    few = replace(sample_store.benchmark_case(0, 1.0), samples=Samples((2000,) * 5))
    assert "2.0 µs  too few samples        5" in screen(row(few))


def test_measured_in_several_processes_is_told_and_which_cases_were_not() -> None:
    def case(index: int, workers: int) -> CaseResult:
        known = sample_store.benchmark_case(index, 1.0)
        assert known.samples is not None
        return replace(known, samples=replace(known.samples, workers=workers))

    assert processes_told([case(0, 1), case(1, 1)]) == ""
    assert processes_told([case(0, 6), case(1, 6)]) == "measured in 6 processes by turns"
    told = processes_told([case(0, 6), case(1, 6), case(2, 1)])
    assert told == "measured in 6 processes by turns; #2 in 1"


def test_a_disturbed_result_says_so() -> None:
    state = {"before": {"load_1min": 12.9, "cores": 2}, "after": {"load_1min": 3.0, "cores": 2}}
    busy = replace(sample_store.PASSED, state=state)
    shown = screen(row(sample_store.benchmark_case(0, 1.0), outcome=busy))
    told = "warning: this machine is busy (load 12.9 on 2 cores): the figures are disturbed"
    assert " ".join(shown.split()).count(told) == 1
    assert "warning" not in screen(row(sample_store.test_case(0), outcome=busy))  # nothing was measured
    known = row(sample_store.benchmark_case(0, 1.0), outcome=busy)
    assert "warning" not in screen(known, told=[told.removeprefix("warning: ")])
    assert "warning" not in screen(row(sample_store.benchmark_case(0, 1.0)))


def test_one_benchmark_is_one_median() -> None:
    assert "geometric mean of 1 benchmark median;" in screen(row(sample_store.benchmark_case(0, 1.0)))
    two = row(sample_store.benchmark_case(0, 1.0), sample_store.benchmark_case(1, 1.0))
    assert "geometric mean of 2 benchmark medians;" in screen(two)


def wrong(index: int, count: int, **changes: object) -> CaseResult:
    message = f"{count} of 1024 elements differ; [{index}, 3] is -1.{count}e-05, expected nan"
    reason = Reason(ReasonCode.WRONG_ANSWER, message)
    return sample_store.test_case(index, status=Status.FAILED, reason=reason, **changes)


def test_wrong_answers_that_differ_in_numbers_are_one_kind() -> None:
    first = wrong(0, 17)
    assert first.reason is not None
    cases = [first, wrong(1, 3), wrong(2, 9), wrong(0, 4, kind=CaseKind.BENCHMARK)]
    outcome = EvaluationOutcome(
        Status.FAILED, Reason(ReasonCode.WRONG_ANSWER, f"test case 0 (batch: 16): {first.reason.message}")
    )
    shown = screen(row(*cases, outcome=outcome))
    assert shown.count("elements differ") == 1
    assert "test 0–2, benchmark 0: failed\n  test 0: 17 of 1024 elements differ" in shown
    assert "wrong_answer" not in shown
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []


def test_a_message_that_ends_its_traceback_is_told_once() -> None:
    reason = Reason(ReasonCode.EXCEPTION, "ValueError: no")
    case = sample_store.test_case(0, status=Status.FAILED, reason=reason, traceback="line 1\nValueError: no\n")
    assert screen(row(case, outcome=EvaluationOutcome(Status.FAILED, reason))).count("ValueError: no") == 1


def test_a_broken_rule_keeps_its_code() -> None:
    reason = Reason(ReasonCode.BELOW_FLOOR, "faster than the device can be")
    case = replace(sample_store.benchmark_case(0, 1.0), status=Status.REJECTED, reason=reason)
    shown = screen(row(case, outcome=EvaluationOutcome(Status.REJECTED, reason)))
    assert shown.count("faster than the device can be (below_floor)") == 1


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_line_of_what_may_be_compared_fits(width: int) -> None:
    first = screen(row(sample_store.benchmark_case(0, 1.0)), width).splitlines()[0]
    assert first.startswith("leaderboard · cpu grid · Intel Xeon @ 2.10GHz · sealed-1 ·")
    assert width == 60 or first.endswith("· bubblewrap")


def test_no_isolation_is_told_in_capitals() -> None:
    assert "sealed-1 · NOT ISOLATED" in screen(row(isolation=IsolationLevel.NONE))


def test_events_that_disagree_are_told_on_the_result_screen() -> None:
    def measured(events_ns: int) -> CaseResult:
        samples = Samples((58_000,) * 7, (8_000,) * 7, (events_ns,) * 7)
        return CaseResult(CaseKind.BENCHMARK, 0, {"n": 4}, Status.PASSED, samples=samples)

    said = " ".join(screen(row(measured(40_000))).split())
    assert "benchmark 0: device events read 40.000 µs, the supervisor's clock 50.000 µs" in said
    assert "device events" not in screen(row(measured(51_000)))


def test_remarks_that_differ_in_numbers_alone_are_one() -> None:
    notes = (("residual 0.31 of 20",), ("residual 0.4 of 20", "slow"), ("residual 0.2 of 20", "slow"))
    cases = [sample_store.test_case(index, notes=each) for index, each in enumerate(notes)]
    shown = screen(row(*cases), with_notes=True)
    assert "test 0: residual 0.31 of 20 (alike: 1–2)\n" in shown
    assert "test 1–2: slow\n" in shown
