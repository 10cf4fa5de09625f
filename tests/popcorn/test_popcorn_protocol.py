"""Reading the pipe: lines, keys, doubled keys, messages of several lines, and anything at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.record import CaseKind
from harness.popcorn.protocol import CaseLines, Report, RunMode, Splitter, message_of


def read(text: str, kind: CaseKind = CaseKind.TEST) -> tuple[list[CaseLines], Report]:
    report = Report(kind)
    cases = [case for line in text.splitlines() if (case := report.add(line)) is not None]
    last = report.finish()
    return cases + ([last] if last else []), report


def test_an_honest_run() -> None:
    cases, report = read(
        "test-count: 2\n"
        "test.0.spec: n: 1; seed: 7\n"
        "test.0.status: pass\n"
        "test.0.message: residual: 0.5\n"
        "test.1.spec: n: 2\n"
        "test.1.status: fail\n"
        "test.1.error: wrong at (0, 1)\n"
        "check: fail\n"
    )
    assert [case.index for case in cases] == [0, 1]
    assert cases[0].fields == {"spec": "n: 1; seed: 7", "status": "pass", "message": "residual: 0.5"}
    assert cases[1].fields["error"] == "wrong at (0, 1)"
    assert (report.check, report.count, report.contradictions) == ("fail", 2, [])


def test_a_case_comes_out_as_soon_as_the_next_one_begins() -> None:
    report = Report(CaseKind.TEST)
    assert report.add("test.0.status: pass") is None
    finished = report.add("test.1.spec: n: 2")
    assert finished is not None
    assert finished.index == 0
    assert report.current is not None
    assert not report.current.told


def test_messages_with_line_breaks_are_kept_whole() -> None:
    cases, _ = read(
        "test.0.status: fail\ntest.0.error: mismatch\n  at (0, 1): 2 instead of 3\nError: odd\ncheck: fail\n"
    )
    assert cases[0].fields["error"] == "mismatch\n  at (0, 1): 2 instead of 3\nError: odd"
    assert message_of("first\\nsecond") == "first\nsecond"


def test_the_first_value_counts_and_another_is_a_contradiction() -> None:
    cases, report = read(
        "test.0.status: fail\ntest.0.status: pass\ntest.0.error: x\ntest.0.error: x\ncheck: fail\ncheck: pass"
    )
    assert cases[0].fields["status"] == "fail"
    assert cases[0].contradictions == ["test.0.status"]  # the same again is none
    assert report.check == "fail"
    assert report.contradictions == ["check"]


def test_a_closed_case_can_not_be_opened_again() -> None:
    cases, report = read("test.0.status: fail\ntest.1.status: pass\ntest.0.status: pass\n")
    assert [case.fields["status"] for case in cases] == ["fail", "pass"]
    assert report.contradictions == ["test.0.status"]


def test_keys_of_the_other_kind_and_absurd_ones_are_no_cases() -> None:
    cases, _ = read(
        "benchmark.0.mean: 3\ntest.99999999.status: pass\ntest.10000.status: pass\ntest.x.status: pass\ntest.0.: 1\n"
    )
    assert cases == []


def test_each_mode_has_its_kind() -> None:
    assert {mode.value: mode.kind.value for mode in RunMode} == {
        "test": "test",
        "benchmark": "benchmark",
        "leaderboard": "benchmark",
        "profile": "benchmark",
    }


def test_splitter_cuts_long_lines_and_goes_on() -> None:
    splitter = Splitter(most_line_bytes=5)
    lines = [*splitter.feed(b"abc"), *splitter.feed(b"defgh\nxy\r\n"), *splitter.feed(b"rest"), *splitter.finish()]
    assert lines == ["abcde", "xy", "rest"]


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=30)),
    st.integers(1, 7),
)
def test_splitter_gives_the_same_lines_however_the_bytes_arrive(lines: list[str], step: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    splitter = Splitter()
    found = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]
    assert found == lines
    assert list(splitter.finish()) == []


LINE = st.one_of(
    st.text(max_size=40),
    st.builds(
        "{}.{}.{}: {}".format,
        st.sampled_from(["test", "benchmark", "check", ""]),
        st.integers(-1, 4),
        st.sampled_from(["spec", "status", "error", "mean", "message", ""]),
        st.text(max_size=20),
    ),
)


@given(st.lists(LINE, max_size=30))
def test_no_line_breaks_the_reader_and_no_case_comes_twice(lines: list[str]) -> None:
    report = Report(CaseKind.BENCHMARK)
    cases = [case for line in lines if (case := report.add(line)) is not None]
    last = report.finish()
    indices = [case.index for case in [*cases, *([last] if last else [])]]
    assert len(indices) == len(set(indices))
    assert report.finish() is None
