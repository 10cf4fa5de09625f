"""leaderboard, history, show and diff on a store whose content is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest
import sample_store
from click.testing import Result

from harness.boards.board import GridName
from harness.cli.common import error_document
from harness.cli.main import cli
from harness.errors import MachineError, RequestError
from harness.evaluation.record import EvaluationOutcome, IsolationLevel, Mode, Reason, ReasonCode, Samples, Status
from harness.store import Store

Run = Callable[..., Result]
BOARD_CLASS = "cpu grid · Intel Xeon @ 2.10GHz · sealed-1 · bubblewrap"


def lines(result: Result) -> list[str]:
    """The output's lines with runs of spaces folded."""
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert "\x1b" not in result.output
    return [" ".join(line.split()) for line in result.output.splitlines()]


def test_leaderboard(filled: Path, harness: Run) -> None:
    shown = lines(harness("leaderboard", "cholesky"))
    assert BOARD_CLASS in shown
    ada = next(line for line in shown if line.startswith("1= ada"))
    bob = next(line for line in shown if line.startswith("1= bob"))
    assert ada.startswith("1= ada 168.83 µs ± 0.5 % blocked.py 2 1 ")
    assert bob.startswith("1= bob 169.80 µs ± 0.5 % blocked.py 3 1 ")
    assert any(line.startswith("1 ada 15.874 µs") for line in shown)  # the GPU's, in a table of its own
    assert "scores within 3 % share a rank (assumed noise between runs)" in shown
    assert not any("200.00 µs" in line for line in shown)


def test_leaderboard_of_every_source(filled: Path, harness: Run) -> None:
    shown = lines(harness("leaderboard", "cholesky", "--all"))
    assert any(line.startswith("3 ada 200.00 µs ± 0.5 % blocked.py 1 1 ") for line in shown)


def test_leaderboard_limit(filled: Path, harness: Run) -> None:
    shown = lines(harness("leaderboard", "cholesky", "--limit", "1"))
    assert "… 1 more; --limit 0 shows it" in shown
    assert not any("bob" in line for line in shown)


def test_leaderboard_json(filled: Path, harness: Run) -> None:
    document = json.loads(harness("leaderboard", "cholesky", "--json").output)
    assert document["leaderboard"] == "cholesky"
    gpu, cpu = document["rankings"]
    assert (gpu["grid"], gpu["device"], gpu["delta"]) == ("full", "NVIDIA H200", 0.005)
    assert (cpu["grid"], cpu["protocol"], cpu["isolation"]) == ("cpu", "sealed-1", "bubblewrap")
    best = cpu["entries"][0]
    assert (best["rank"], best["tied"], best["user"], best["submission"]) == (1, True, "ada", 2)
    assert best["score_us"] == pytest.approx((50.0 * 200.5 * 480.0) ** (1 / 3), rel=1e-12)
    assert best["score_ci_us"][0] < best["score_us"] < best["score_ci_us"][1]


def test_leaderboard_says_what_does_not_rank(home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open() as store:
        sample_store.passed(store, "ada", "a", (1.0, 1.0, 1.0), isolation=IsolationLevel.NONE)
    shown = lines(harness("leaderboard", "cholesky"))
    assert any(line.startswith("No ranked submission yet.") for line in shown)
    assert any(line.startswith("not ranked: 1 ran without isolation") for line in shown)
    monkeypatch.setenv("HARNESS_RANK_UNISOLATED", "1")
    shown = lines(harness("leaderboard", "cholesky"))
    assert any("NOT ISOLATED" in line for line in shown)
    assert any(line.startswith("1 ada") for line in shown)


def test_leaderboard_of_an_unknown_board(filled: Path, harness: Run) -> None:
    result = harness("leaderboard", "cholesk")
    assert result.exit_code == 2
    assert "cholesk" in result.stderr


def test_history(filled: Path, harness: Run) -> None:
    shown = lines(harness("history"))
    assert shown.count("cholesky · ada") == 2  # one section for the GPU, one for the CPU
    assert shown.index("cholesky · ada") < shown.index(BOARD_CLASS)
    newest = [line.split()[0] for line in shown if line and line[0].isdigit()]
    assert newest == ["5", "4", "2", "1"]
    second = next(line for line in shown if line.startswith("2 "))
    assert second.endswith("blocked.py 168.83 µs ± 0.5 % −15.6 % new best 1")
    assert next(line for line in shown if line.startswith("1 ")).endswith("blocked.py 200.00 µs ± 0.5 % first 1 → 2")
    assert next(line for line in shown if line.startswith("4 ")).endswith("[broken].py test failed")
    assert "trend █▁ 200 µs → 169 µs, oldest to newest; best run 168.83 µs by 2" in shown
    assert lines(harness("history", "cholesky")) == shown
    assert not any("bob" in line for line in shown)


def test_history_limit(filled: Path, harness: Run) -> None:
    shown = lines(harness("history", "--limit", "2"))
    assert "… 1 older; --limit 0 shows it" in shown
    assert [line.split()[0] for line in shown if line and line[0].isdigit()] == ["5", "4", "2"]


def test_history_of_nobody(filled: Path, harness: Run) -> None:
    result = harness("history", "--user", "eve")
    assert (result.exit_code, result.output) == (
        0,
        f"eve has no submissions yet in {filled}/home/harness.sqlite3. `harness submit FILE` makes the first.\n",
    )


def test_history_json(filled: Path, harness: Run) -> None:
    document = json.loads(harness("history", "--json").output)
    assert document["user"] == "ada"
    assert [row["id"] for row in document["submissions"]] == [5, 4, 2, 1]
    gpu, failed, fast, slow = document["submissions"]
    assert (slow["against_previous"], slow["against_best"]) == (None, None)
    assert fast["against_previous"] == pytest.approx(fast["score_us"] / slow["score_us"], rel=1e-12)
    assert (failed["mode"], failed["status"], failed["reason"]["code"]) == ("test", "failed", "wrong_answer")
    assert (gpu["device"], gpu["against_previous"]) == ("NVIDIA H200", None)


def test_show(filled: Path, harness: Run) -> None:
    result = harness("show", "2")
    shown = lines(result)
    assert shown[0] == "submission 2 · cholesky · blocked.py · ada · the one before: 1"
    assert result.output.endswith(f"\n\n{sample_store.FAST}")
    assert "PASSED score 168.83 µs ± 0.5 % rank 1=" in shown
    assert "0 batch: 256; n: 32; cond: 2 50.00 µs ± 0.8 % 15" in shown
    assert "test 0–1: residual 0.31 of 20" in shown
    assert "logs: /var/tmp/harness/logs/17 (no longer there)" in shown
    assert "versions: harness 0.1.0, torch 2.13.0+cpu, python 3.11.9" in shown
    assert "import torch" not in harness("show", "2", "--no-code").output


def test_show_of_a_failure(filled: Path, harness: Run) -> None:
    shown = lines(harness("show", "4"))
    assert "FAILED" in shown
    assert "1 of 4 cases not run" in shown
    assert "3 of 1024 wrong, first at [0, 1, 2]: expected 1.5, got \\x1b[31m0.0" in shown
    assert "ValueError: [bold]no[/bold]" in shown


def test_show_of_an_interrupted_run_keeps_its_finished_cases(home: Path, harness: Run) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import sample_store, os\n"
        "from harness.store import Store\n"
        "store = Store.open()\n"
        "submission = store.add_submission('cholesky', 'ada', 'a.py', 'x')\n"
        "evaluation = store.begin_evaluation(submission, sample_store.HEADER)\n"
        "store.add_case(evaluation, sample_store.benchmark_case(0, 100.0))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=False)
    shown = lines(harness("show", "1"))
    assert "INTERRUPTED" in shown
    assert "the process that ran it ended before it did" in shown
    assert "0 batch: 256; n: 32; cond: 2 100.00 µs ± 0.8 % 15" in shown
    assert "4 of 5 cases not run" in shown
    assert any(line.endswith("interrupted") for line in lines(harness("history")))


def test_show_json(filled: Path, harness: Run) -> None:
    document = json.loads(harness("show", "2", "--json").output)
    assert document["submission"]["id"] == 2
    assert document["submission"]["previous"] == 1
    assert document["evaluation"]["rank"] == 1
    assert document["source"] == sample_store.FAST
    assert [each["id"] for each in document["evaluations"]] == [document["evaluation"]["id"]]


@pytest.mark.parametrize(("operand", "code"), [("99", 2), ("0", 2), ("x", 2)])
def test_show_of_what_is_not_there(filled: Path, harness: Run, operand: str, code: int) -> None:
    result = harness("show", operand)
    assert result.exit_code == code
    if operand == "99":
        assert result.stderr == "there is no submission 99 (allowed: 1 to 5)\n`harness history` lists yours."


def test_an_id_that_was_deleted(filled: Path, harness: Run) -> None:
    with Store.open() as store:
        store.delete_submission(3)
    result = harness("show", "3")
    assert result.exit_code == 2
    assert result.stderr == "submission 3 is not there (deleted?); the last is 5\n`harness history` lists yours."


def test_diff(filled: Path, harness: Run) -> None:
    shown = lines(harness("diff", "1", "2"))
    assert shown[:2] == ["old 1 · cholesky · blocked.py · ada", "new 2 · cholesky · blocked.py · ada"]
    for line in ("⋯ 2 unchanged lines", "-BLOCK = 32", "+BLOCK = 64", "⋯ 9 unchanged lines"):
        assert line in shown
    assert "0 batch: 256; n: 32; cond: 2 100.00 µs 50.00 µs 0.500 ± 1.6 % faster" in shown
    assert "1 batch: 64; n: 64; cond: 2 200.0 µs 200.5 µs 1.002 ± 1.6 % same" in shown
    assert "2 batch: 16; n: 128; cond: 2 400.0 µs 480.0 µs 1.200 ± 1.6 % slower" in shown
    assert "score 200.00 µs 168.83 µs 0.844 ± 0.9 % faster" in shown
    assert any("different sessions" in line for line in shown)


def test_diff_of_one_is_against_its_predecessor(filled: Path, harness: Run) -> None:
    assert harness("diff", "2").output == harness("diff", "1", "2").output


def test_diff_takes_the_last_two_by_default(filled: Path, harness: Run) -> None:
    shown = lines(harness("diff"))
    assert shown[0].startswith("old 4 ")
    assert shown[1].startswith("new 5 ")
    assert any(line.startswith("No comparison: the times are not comparable: another grid") for line in shown)
    assert lines(harness("diff", "--leaderboard", "cholesky")) == shown


def test_diff_of_files(filled: Path, harness: Run) -> None:
    file = filled / "7.py"
    file.write_text(sample_store.FAST.replace("64", "128"))
    against_latest = harness("diff", str(file))
    assert against_latest.output.startswith("old  5 · cholesky")
    assert "+BLOCK = 128" in against_latest.output
    assert "+BLOCK = 128" in harness("diff", "1", str(file)).output
    assert "The code is the same." in harness("diff", str(file), str(file)).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1"], "submission 1 is the first of ada on cholesky"),
        (["1", "99"], "there is no submission 99"),
        (["1", "nothing.py"], "nothing.py: there is no such file"),
        (["--user", "eve"], "eve has no submissions"),
        (["--leaderboard", "softmax"], "ada has no submissions on softmax"),
        (["--leaderboard", "choleski"], "choleski"),
    ],
)
def test_diffs_that_can_not_be(filled: Path, harness: Run, arguments: list[str], message: str) -> None:
    result = harness("diff", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_diff_json(filled: Path, harness: Run) -> None:
    document = json.loads(harness("diff", "1", "2", "--json").output)
    assert (document["old"]["id"], document["new"]["id"], document["refusal"]) == (1, 2, None)
    assert "-BLOCK = 32" in document["code"]
    first = document["cases"][0]
    assert (first["old_us"], first["new_us"], first["ratio"], first["verdict"]) == (100.0, 50.0, 0.5, "faster")
    assert document["score"]["verdict"] == "faster"
    refused = json.loads(harness("diff", "2", "5", "--json").output)
    assert "another grid" in refused["refusal"]
    assert (refused["cases"], refused["score"]) == ([], None)


def test_diff_chooses_evaluations_that_compare(home: Path, harness: Run) -> None:
    """A submission tested again on another grid is still compared by its older figures."""
    with Store.open() as store:
        sample_store.passed(store, "ada", "a", (100.0, 100.0, 100.0))
        second = sample_store.passed(store, "ada", "b", (50.0, 50.0, 50.0))
        again = replace(sample_store.HEADER, mode=Mode.TEST, grid=GridName.FULL)
        evaluation = store.begin_evaluation(second, again)
        reason = Reason(ReasonCode.WRONG_ANSWER, "wrong")
        store.finish_evaluation(evaluation, EvaluationOutcome(Status.FAILED, reason))
    document = json.loads(harness("diff", "--json").output)
    assert [case["ratio"] for case in document["cases"]] == [0.5, 0.5, 0.5]


def test_every_command_reads_an_empty_store(home: Path, harness: Run) -> None:
    assert harness("history").exit_code == 0
    assert harness("show", "1").exit_code == 2
    assert harness("diff").exit_code == 2
    assert not (home / "home").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["boards"], ["history"], ["leaderboard", "cholesky"], ["diff"]])
def test_lookups_import_nothing_heavy(filled: Path, arguments: list[str]) -> None:
    code = (
        "import sys, runpy\n"
        "sys.argv = ['harness', *sys.argv[1:]]\n"
        "try: runpy.run_module('harness.cli.main', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(sorted({'torch', 'numpy', 'sqlalchemy', 'alembic', 'pygments'} & sys.modules.keys()),\n"
        "      file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=os.environ, check=True
    )
    assert done.stderr == "[]\n"


def test_a_submission_that_is_not_its_users_best_names_the_one_that_is(home: Path, harness: Run) -> None:
    with Store.open() as store:
        sample_store.passed(store, "ada", "fast", (50.0, 50.0, 50.0))
        sample_store.passed(store, "bob", "middling", (70.0, 70.0, 70.0))
        sample_store.passed(store, "ada", "slow", (90.0, 90.0, 90.0))
    assert "PASSED score 50.00 µs ± 0.5 % rank 1" in lines(harness("show", "1"))
    assert "PASSED score 70.00 µs ± 0.5 % rank 2" in lines(harness("show", "2"))
    assert "PASSED score 90.00 µs ± 0.5 % rank 1 stays with submission 1" in lines(harness("show", "3"))
    assert "the rank is that of the user's best file, which is another" in " ".join(lines(harness("show", "3")))
    assert json.loads(harness("show", "3", "--json").output)["evaluation"]["rank"] == 2  # what 90 µs would hold


def test_history_marks_what_is_within_the_noise(home: Path, harness: Run) -> None:
    with Store.open() as store:
        for number, median_us in enumerate((100.0, 99.0, 50.0, 165.0)):
            sample_store.passed(store, "ada", f"x = {number}", (median_us,) * 3)
    shown = lines(harness("history"))
    one, two, three, four = (next(line for line in shown if line.startswith(f"{id} ")) for id in (1, 2, 3, 4))
    assert "~ first" not in one
    assert "99.00 µs ± 0.5 % ~ −1.0 % ~ new best" in two  # 3 % are assumed of a processor
    assert "50.00 µs ± 0.5 % −49.5 % new best" in three
    assert "165.00 µs ± 0.5 % +230 % +230 %" in four
    told = (
        "change: against the submission before it; of best: against the best score before it; "
        "~: within the noise of the runs; rank: the place that the score held among the other users' best"
    )
    assert told in " ".join(shown)
    document = json.loads(harness("history", "--json").output)
    assert [row["within_noise"]["previous"] for row in document["submissions"]] == [False, False, True, False]


def test_a_legend_tells_of_what_is_shown_alone(home: Path, harness: Run) -> None:
    with Store.open() as store:
        sample_store.passed(store, "ada", "x", (100.0,) * 3)
    assert not any("change:" in line or "~" in line or "then" in line for line in lines(harness("history")))


def test_a_submission_without_an_evaluation_stands_in_its_boards_table(filled: Path, harness: Run) -> None:
    with Store.open() as store:
        assert store.add_submission("cholesky", "ada", "stopped.py", "x") == 6
    shown = lines(harness("history"))
    assert shown.count("cholesky · ada") == 2  # as many tables as before
    rows = [line for line in shown if line and line[0].isdigit()]
    assert [line.split()[0] for line in rows] == ["6", "5", "4", "2", "1"]
    assert rows[0].endswith("stopped.py not evaluated")
    assert "submission 6 was not evaluated: it was stopped before its first case" in " ".join(
        lines(harness("show", "6"))
    )


def test_long_names_keep_both_ends_in_any_width(home: Path, harness: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open() as store:
        submission = store.add_submission("cholesky", "ada", "cholesky_blocked_version_12.py", "x", [])
        evaluation = store.begin_evaluation(submission, sample_store.HEADER)
        store.add_case(evaluation, sample_store.benchmark_case(0, 100.0))
        store.finish_evaluation(evaluation, sample_store.PASSED)
    for width in ("60", "80"):
        monkeypatch.setenv("COLUMNS", width)
        for command in (("history",), ("leaderboard", "cholesky")):
            shown = harness(*command).output
            assert max(map(len, shown.splitlines())) <= int(width)
            assert shown.count("…") == 1, shown
            assert ".py" in next(line for line in shown.splitlines() if "…" in line)
    monkeypatch.setenv("COLUMNS", "120")
    assert "cholesky_blocked_version_12.py" in harness("history").output
    assert "cholesky_blocked_version_12.py" in harness("leaderboard", "cholesky").output


def test_a_noisy_score_is_marked_in_the_ranking_and_in_the_history(home: Path, harness: Run) -> None:
    overhead = (1_000,) * 4 + (60_000,) * 7 + (160_000,) * 4
    case = replace(sample_store.benchmark_case(0, 1.0), samples=Samples((106_000,) * 15, overhead))
    with Store.open() as store:
        submission = store.add_submission("cholesky", "ada", "a.py", "x", [])
        evaluation = store.begin_evaluation(submission, sample_store.HEADER)
        store.add_case(evaluation, case)
        store.finish_evaluation(evaluation, sample_store.PASSED)
    assert any(line.startswith("1 ada 100 µs too noisy a.py") for line in lines(harness("leaderboard", "cholesky")))
    assert any("100 µs" in line for line in lines(harness("history")))
    document = json.loads(harness("leaderboard", "cholesky", "--json").output)
    assert document["rankings"][0]["entries"][0]["score_ci_us"] is None


@pytest.mark.parametrize("command", [("history",), ("show", "1"), ("leaderboard", "cholesky"), ("diff",)])
def test_a_home_that_is_a_file_is_an_error(home: Path, harness: Run, command: tuple[str, ...]) -> None:
    (home / "home").write_text("a file")
    result = harness(*command)
    assert result.exit_code == 3
    assert "the store's folder is not a folder" in result.stderr
    assert "Set HARNESS_HOME to a folder of yours." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("delete", "abc"), "'abc' is no id. Only ids are taken here, not tags;"),
        (("delete", "0"), "0 is too small (allowed: 1 or more)."),
        (("history", "--limit", "-1"), "-1 is too small (allowed: 0 or more)."),
        (("leaderboard", "cholesky", "--limit", "x"), "'x' is not a whole number (allowed: 0 or more)."),
        (("note", "1", "--remove", "1.5"), "'1.5' is not a whole number (allowed: 1 or more)."),
    ],
)
def test_numbers_that_are_none_are_told_in_our_words(
    filled: Path, harness: Run, arguments: tuple[str, ...], message: str
) -> None:
    result = harness(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_errors_as_documents() -> None:
    error = RequestError("no such case", where="--case", allowed="0 to 3", hint="Look.")
    assert error_document(error) == {
        "error": {
            "code": "bad_request",
            "what": "no such case",
            "where": "--case",
            "allowed": "0 to 3",
            "hint": "Look.",
        }
    }
    assert error_document(MachineError("no GPU"))["error"] == {
        "code": "machine_cannot",
        "what": "no GPU",
        "where": None,
        "allowed": None,
        "hint": None,
    }
    with pytest.raises(click.UsageError) as raised:
        cli.main(["delete", "abc"], standalone_mode=False)
    assert error_document(raised.value)["error"]["what"].startswith("'abc' is no id")
    assert error_document(raised.value)["error"]["code"] == "bad_request"
    assert error_document(ZeroDivisionError("x"))["error"]["what"] == "internal error: ZeroDivisionError: x"


def test_a_moment_to_come_has_no_ranks(filled: Path, harness: Run) -> None:
    result = harness("leaderboard", "cholesky", "--since", "2999-01-01")
    assert result.exit_code == 2
    assert "--since 2999-01-01 00:00 is still to come" in result.stderr
    heads = [line for line in lines(harness("leaderboard", "cholesky", "--since", "2001-01-01")) if "rank " in line]
    assert all(line.startswith("rank 2001-01-01 user") for line in heads if line.startswith("rank"))


def test_imported_scores_are_claims_without_a_verdict(
    filled: Path, harness: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    file = str(filled / "all.parquet")
    assert harness("export", file, "--user", "ada").exit_code == 0
    monkeypatch.setenv("HARNESS_HOME", str(filled / "another"))
    assert harness("import", file).exit_code == 0
    rows = json.loads(harness("history", "--json", "--device", "Xeon").output)["submissions"]
    new, old = (row["id"] for row in rows if row["protocol"] == "hosted" and row["score_us"] is not None)
    page = filled / "page.html"
    shown = " ".join(harness("diff", str(old), str(new), "--html", str(page)).output.split())
    for text in (shown, page.read_text().partition("</style>")[2]):
        assert "without samples, so there is no verdict." in text
        for word in ("too noisy", "0 %", "different sessions", "unsure"):
            assert word not in text, word
    document = json.loads(harness("diff", str(old), str(new), "--json").output)
    assert document["score"]["verdict"] is None
