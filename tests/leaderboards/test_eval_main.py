"""The shared popcorn eval main, run for real as a subprocess in the way the hosted service runs it."""

from __future__ import annotations

import base64
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from boards_on_disk import ROOT, cpu_cases, module, task_yml
from hypothesis import given
from hypothesis import strategies as st

EVAL = ROOT / "leaderboards" / "common" / "eval.py"
evaluator = module(EVAL, beside=EVAL.parent)

RIGHT = (ROOT / "submissions" / "cholesky" / "cholesky_torch.py").read_text()
CASES = "batch: 4; n: 16; cond: 2; seed: 1\nbatch: 2; n: 24; cond: 3; seed: 2; case: spectrum\n"


@dataclass
class Run:
    exit_status: int
    keys: dict[str, str]
    stdout: str
    stderr: str


def run_eval(
    folder: Path, submission: str, mode: str, cases: str, *, seed: int | None = None, board: str = "cholesky"
) -> Run:
    """Lay the board's files out, run its main, and read the pipe as the service does: only after the end."""
    for file in task_yml(board)["files"]:
        source = file["source"]
        text = submission if source == "@SUBMISSION@" else (ROOT / "leaderboards" / board / source).read_text()
        (folder / file["name"]).write_text(text)
    (folder / "cases.txt").write_text(cases)
    reading, writing = os.pipe()
    env = {**os.environ, "POPCORN_FD": str(writing), "OMP_NUM_THREADS": "1"}
    if seed is not None:
        env["POPCORN_SEED"] = str(seed)
    done = subprocess.run(
        [sys.executable, "eval.py", mode, str(folder / "cases.txt")],
        cwd=folder, env=env, pass_fds=[writing], capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    keys = {}
    for line in lines:
        key, _, value = line.partition(":")
        keys[key.strip()] = value.strip()
    return Run(done.returncode, keys, done.stdout, done.stderr)


def test_mode_test_right(tmp_path: Path) -> None:
    run = run_eval(tmp_path, RIGHT, "test", CASES)
    assert run.exit_status == 0, run.stderr
    assert run.keys["test-count"] == "2"
    assert run.keys["test.0.spec"] == "batch: 4; n: 16; cond: 2; seed: 1"
    assert run.keys["test.1.spec"] == "batch: 2; n: 24; cond: 3; seed: 2; case: spectrum"
    assert run.keys["test.0.status"] == run.keys["test.1.status"] == "pass"
    assert "scaled residual" in run.keys["test.1.message"]
    assert run.keys["check"] == "pass"


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_timed_modes_right(tmp_path: Path, mode: str) -> None:
    run = run_eval(tmp_path, RIGHT, mode, CASES, seed=77)
    assert run.exit_status == 0, run.stderr
    assert run.keys["benchmark-count"] == "2"
    for index in (0, 1):
        runs = int(run.keys[f"benchmark.{index}.runs"])
        mean, std, err, best, worst = (
            float(run.keys[f"benchmark.{index}.{key}"]) for key in ("mean", "std", "err", "best", "worst")
        )
        assert 3 <= runs <= 100
        assert 1_000 < best <= mean <= worst < 1e9  # nanoseconds
        assert err == pytest.approx(std / runs**0.5)
    assert run.keys["check"] == "pass"


def test_mode_profile_gives_a_table(tmp_path: Path) -> None:
    run = run_eval(tmp_path, RIGHT, "profile", CASES)
    assert run.exit_status == 0, run.stderr
    table = base64.b64decode(run.keys["benchmark.0.report"], b"+*").decode()
    assert "aten::linalg_cholesky_ex" in table
    assert run.keys["check"] == "pass"


WRONG_ON_SECOND = """
import torch
def custom_kernel(data):
    right = torch.linalg.cholesky(data)
    return torch.zeros_like(right) if data.shape[-1] == 24 else right
"""


@pytest.mark.parametrize(("mode", "kind"), [("test", "test"), ("benchmark", "benchmark"), ("leaderboard", "benchmark")])
def test_wrong_on_one_case_names_it_and_keeps_the_other(tmp_path: Path, mode: str, kind: str) -> None:
    run = run_eval(tmp_path, WRONG_ON_SECOND, mode, CASES + CASES.replace("n: 24", "n: 8"))
    assert run.exit_status == 112
    assert run.keys[f"{kind}.1.status"] == "fail"
    assert run.keys[f"{kind}.1.error"].startswith("matrix 0: diagonal element 0 is 0")
    for index in (0, 2, 3):
        assert run.keys.get(f"{kind}.{index}.status", "pass") == "pass"
        assert f"{kind}.{index}.error" not in run.keys
    assert run.keys["check"] == "fail"


CACHING = """
import torch
kept = {}
def custom_kernel(data):
    key = tuple(data.shape)
    if key not in kept:
        kept[key] = torch.linalg.cholesky(data)
    return kept[key].clone()
"""


@pytest.mark.parametrize("mode", ["benchmark", "leaderboard"])
def test_an_answer_kept_from_the_first_call_fails_in_the_timed_ones(tmp_path: Path, mode: str) -> None:
    run = run_eval(tmp_path, CACHING, mode, CASES)
    assert run.exit_status == 112
    assert "timed window 1: matrix" in run.keys["benchmark.0.error"]
    assert "input drawn with seed" in run.keys["benchmark.0.error"]


RAISES = """
import torch
def custom_kernel(data):
    if data.shape[-1] == 24:
        raise ValueError("first line\\nsecond line: of the message\\u2028third")
    return torch.linalg.cholesky(data)
"""


def test_an_exception_is_one_line_with_its_case_and_a_traceback(tmp_path: Path) -> None:
    run = run_eval(tmp_path, RAISES, "test", CASES)
    assert run.exit_status == 112
    assert run.keys["test.0.status"] == "pass"
    assert run.keys["test.1.spec"] == "batch: 2; n: 24; cond: 3; seed: 2; case: spectrum"
    expected = r"ValueError: first line\nsecond line: of the message\nthird (submission.py, line 5)"
    assert run.keys["test.1.error"] == expected
    assert "In case (batch: 2; n: 24; cond: 3; seed: 2; case: spectrum):" in run.stderr
    assert "Traceback" in run.stderr
    assert set(run.keys) == {"test-count", "check"} | {
        f"test.{key}" for key in ("0.spec", "0.status", "0.message", "1.spec", "1.status", "1.error")
    }


DIES = """
import os, torch
def custom_kernel(data):
    if data.shape[-1] == 16:
        os._exit(0)
    return torch.linalg.cholesky(data)
"""


def test_a_process_that_ends_is_a_failure_and_the_next_case_runs(tmp_path: Path) -> None:
    run = run_eval(tmp_path, DIES, "test", CASES)
    assert run.exit_status == 112
    assert run.keys["test.0.error"] == "the submission's process ended by itself, exit status 0"
    assert run.keys["test.1.status"] == "pass"


def test_an_import_error_fails_every_case(tmp_path: Path) -> None:
    run = run_eval(tmp_path, "import sys\nsys.exit(0)\n", "test", CASES)
    assert run.exit_status == 112
    assert [run.keys[f"test.{index}.error"] for index in (0, 1)] == ["SystemExit: 0 (submission.py, line 2)"] * 2


CUDA_ERROR = """
import os, torch
def custom_kernel(data):
    print("process", os.getpid())
    if data.shape[-1] == 16:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return torch.linalg.cholesky(data)
"""


def test_a_cuda_error_has_its_exit_status_and_does_not_reach_the_next_case(tmp_path: Path) -> None:
    run = run_eval(tmp_path, CUDA_ERROR, "test", CASES)
    assert run.exit_status == 110
    assert run.keys["test.0.error"].startswith("RuntimeError: CUDA error: an illegal memory access")
    assert run.keys["test.1.status"] == "pass"
    assert len(set(run.stdout.split())) == 3  # the word and two different processes


def test_long_errors_never_fill_the_pipe(tmp_path: Path) -> None:
    long = "def custom_kernel(data):\n    raise ValueError('x' * 100_000 + '\\n' * 9)\n"
    run = run_eval(tmp_path, long, "test", CASES * 8)
    assert run.exit_status == 112
    assert run.keys["test.15.error"].endswith("[...]")
    assert sum(len(key) + len(value) + 3 for key, value in run.keys.items()) < 65_536


def test_secret_seed_changes_the_inputs(tmp_path: Path) -> None:
    tells = "import torch\ndef custom_kernel(data):\n    raise ValueError(repr(float(data[0, 0, 0])))\n"
    seen = [run_eval(tmp_path, tells, "test", CASES, seed=seed).keys["test.0.error"] for seed in (None, 5, 6, 5)]
    assert len(set(seen[:3])) == 3
    assert seen[1] == seen[3]


def test_environment_is_clean_for_the_submission(tmp_path: Path) -> None:
    nosy = (
        "import os, torch\n"
        "found = sorted(k for k in os.environ if k.startswith('POPCORN'))\n"
        "def custom_kernel(data):\n    raise ValueError(found)\n"
    )
    run = run_eval(tmp_path, nosy, "test", CASES, seed=5)
    assert run.keys["test.0.error"].startswith("ValueError: [] ")


@pytest.mark.parametrize(
    ("cases", "complaint"),
    [
        ("batch 4; n: 16", "cases.txt:1: 'batch 4' is no `key: value`"),
        ("n: 16\n\nn: ; seed: 1", "cases.txt:3: 'n:' is no `key: value`"),
        ("n: 1; n: 2", "cases.txt:1: 'n' is given twice"),
        ("\n", "cases.txt: no cases"),
    ],
)
def test_a_bad_case_file_exits_113(tmp_path: Path, cases: str, complaint: str) -> None:
    run = run_eval(tmp_path, RIGHT, "test", cases)
    assert run.exit_status == 113
    assert complaint in run.stderr
    assert run.keys == {}


def test_usage_and_descriptor(tmp_path: Path) -> None:
    assert run_eval(tmp_path, RIGHT, "guess", CASES).exit_status == 2
    for descriptor in ({}, {"POPCORN_FD": "many"}, {"POPCORN_FD": "987"}):
        env = {key: value for key, value in os.environ.items() if key != "POPCORN_FD"} | descriptor
        done = subprocess.run(
            [sys.executable, str(EVAL), "test", "x"], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 111
        assert "POPCORN_FD" in done.stderr


def test_every_cpu_case_of_a_board_survives_the_service_line_format(tmp_path: Path) -> None:
    lines = "".join("; ".join(f"{k}: {v}" for k, v in case.items()) + "\n" for case in cpu_cases("cholesky"))
    (tmp_path / "cases").write_text(lines)
    cases = evaluator.read_cases(str(tmp_path / "cases"), None)
    assert [case.arguments for case in cases] == cpu_cases("cholesky")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16), ("-3", -3), ("1_000", 1000), ("1e-3", 0.001), ("True", True), ("None", None), ("dense", "dense"),
        ("bf16", "bf16"), ("e4m3fn", "e4m3fn"), ("[128, 256]", (128, 256)), ("(1, 2)", (1, 2)), ("[]", ()),
        ("[[1, 2], [3]]", ((1, 2), (3,))), ("['a', 0.5]", ("a", 0.5)), ("1+2j", "1+2j"), ("a-b", "a-b"),
        ("{1: 2}", "{1: 2}"), ("(", "("),
    ],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    assert evaluator.parse_value(text) == value
    assert type(evaluator.parse_value(text)) is type(value)


names = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
scalars = st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.none()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@given(st.dictionaries(names, values, min_size=1, max_size=5))
def test_what_the_service_writes_is_read_back(spec: dict[str, object]) -> None:
    line = "; ".join(f"{key}: {value}" for key, value in spec.items())
    assert evaluator.parse_case(line, "x:1").arguments == spec


@given(st.text(max_size=40))
def test_no_line_breaks_the_parser(line: str) -> None:
    try:
        case = evaluator.parse_case(line, "x:1")
    except evaluator.CaseFileError as error:
        text = str(error)
    else:
        text = "x:1: "
        assert case.arguments
    assert text.startswith("x:1: ")


def test_seeds_combine_by_cantor_pairing() -> None:
    # pairing(3, 4) = 3 + 7·8/2
    assert evaluator.combine_seeds(3, 4) == 31
    pairs = [evaluator.combine_seeds(a, b) for a in range(40) for b in range(40)]
    assert len(set(pairs)) == 1600


def test_summary_by_hand() -> None:
    summary = evaluator.summarise([10.0, 12.0, 14.0, 16.0])
    assert summary["runs"] == 4
    assert summary["mean"] == 13.0
    assert summary["std"] == pytest.approx(statistics.stdev([10, 12, 14, 16]))
    assert summary["err"] == pytest.approx(statistics.stdev([10, 12, 14, 16]) / 2)
    assert (summary["best"], summary["worst"]) == (10.0, 16.0)
    assert evaluator.summarise([5.0])["std"] == 0.0
