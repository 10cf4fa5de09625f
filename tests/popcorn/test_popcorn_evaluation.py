"""The protocol run for real, on eval mains that are honest, broken, flooding, hanging and forged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from popcorn_boards import HONEST_MAIN, RIGHT, Folder

from harness.errors import ExitStatus, MachineError, RequestError
from harness.evaluation.record import CaseKind, Mode, Protocol, ReasonCode, Samples, Status
from harness.measure.statistics import case_figure
from harness.popcorn import PopcornEvaluation

OPEN = 'import os, sys, time\npipe = os.fdopen(int(os.environ["POPCORN_FD"]), "w")\n'


def statuses(seen: object) -> list[Status]:
    return [case.status for case in seen.cases]  # type: ignore[attr-defined]


# --- honest mains ---


def test_mode_test(folder: Folder) -> None:
    seen = folder.evaluate()
    assert seen.header.protocol is Protocol.POPCORN
    assert seen.header.cases_planned == 2
    assert [(case.kind, case.index, dict(case.spec)) for case in seen.cases] == [
        (CaseKind.TEST, 0, {"n": 1, "seed": 7}),
        (CaseKind.TEST, 1, {"n": 2, "seed": 8}),
    ]
    assert statuses(seen) == [Status.PASSED] * 2
    assert seen.outcome.status is Status.PASSED
    assert seen.outcome.rank_reason is None
    assert [event.text for event in seen.progress] == ["test 0: n: 1; seed: 7", "test 1: n: 2; seed: 8"]


def test_mode_benchmark_takes_the_mean_as_the_figure(folder: Folder) -> None:
    seen = folder.evaluate(mode=Mode.BENCHMARK)
    assert seen.cases[0].samples == Samples(wall_ns=(1500,))
    figure = case_figure(seen.cases[1].samples)
    assert figure is not None
    assert (figure.value_ns, figure.interval_ns) == (1501.0, None)
    (note,) = seen.cases[0].notes
    assert note == (
        "the figure is the eval main's mean over 3 runs, 1500.25 ns; best 1400.0, worst 1600.5, std 2.0, err 1.5"
    )


def test_mode_leaderboard_is_test_then_benchmark_then_ranked_and_never_ranks(folder: Folder) -> None:
    folder.task["seed"] = "55"
    folder.main = HONEST_MAIN.replace(
        'say(f"{kind}-count', "print('SEED', os.environ.get('POPCORN_SEED'));say(f\"{kind}-count"
    )
    seen = folder.evaluate(mode=Mode.LEADERBOARD, seed=None)
    assert [case.kind.value for case in seen.cases] == ["test", "test", "benchmark", "benchmark"]
    assert statuses(seen) == [Status.PASSED] * 4
    assert seen.outcome.rank_reason is not None
    assert seen.outcome.rank_reason.code is ReasonCode.UNSEALED_PROTOCOL
    assert list(seen.outcome.phases_s) == ["build", "test", "benchmark", "leaderboard"]
    assert seen.cases[2].notes[1].startswith("in the benchmark run before: ")
    # The board's own seed, which anybody can read, in the runs before; a secret one in the run that counts.
    assert seen.log("test").split() == seen.log("benchmark").split() == ["SEED", "55"]
    secret = int(seen.log("leaderboard").split()[1])
    assert secret not in (55, seen.header.seed)


def test_no_seed_is_passed_where_the_board_has_none(folder: Folder) -> None:
    folder.main = "import os\nprint('SEED', os.environ.get('POPCORN_SEED'))\n" + HONEST_MAIN
    assert folder.evaluate().log("test") == "SEED None\n"
    assert folder.evaluate(seed=12).log("test") == "SEED 12\n"


def test_the_cases_file_is_the_services(folder: Folder) -> None:
    folder.task["tests"] = '[{"m": [96, 128], "fast": true, "case": "dense", "scale": 0.5}]'
    folder.main = HONEST_MAIN.replace("pipe =", "print(open(sys.argv[2]).read(), end='')\npipe =", 1)
    assert folder.evaluate().log("test") == "m: [96, 128]; fast: True; case: dense; scale: 0.5\n"


def test_only_some_cases_keep_their_own_numbers(folder: Folder) -> None:
    seen = folder.evaluate(mode=Mode.BENCHMARK, only=(1,))
    assert [(case.index, dict(case.spec)) for case in seen.cases] == [(1, {"n": 20, "seed": 10})]
    assert seen.cases[0].samples == Samples(wall_ns=(1500,))


def test_ranking_by_last_runs_the_last_benchmark_alone(folder: Folder) -> None:
    del folder.task["ranking_by"]
    seen = folder.evaluate(mode=Mode.BENCHMARK)
    assert [case.index for case in seen.cases] == [1]
    assert seen.header.cases_planned == 1


def test_a_wrong_answer_names_its_case_and_the_others_go_on(folder: Folder) -> None:
    seen = folder.evaluate(
        "def kernel(mode, index): return 'mismatch at (0, 3)\\n  got 1' if index == 0 else 'right'\n"
    )
    assert statuses(seen) == [Status.FAILED, Status.PASSED]
    reason = seen.cases[0].reason
    assert reason is not None
    assert (reason.code, reason.message) == (ReasonCode.WRONG_ANSWER, "mismatch at (0, 3)\n  got 1")
    assert seen.outcome.status is Status.FAILED
    assert seen.outcome.reason is not None
    assert seen.outcome.reason.message.startswith("test case 0 (n: 1; seed: 7): mismatch at (0, 3)")


def test_fail_fast_ends_the_program(folder: Folder) -> None:
    source = "import time\ndef kernel(mode, index):\n    if index: time.sleep(60)\n    return 'wrong'\n"
    started = time.monotonic()
    seen = folder.evaluate(source, fail_fast=True)
    assert time.monotonic() - started < 15
    assert statuses(seen) == [Status.FAILED]


def test_a_failed_test_run_ends_a_leaderboard_run(folder: Folder) -> None:
    seen = folder.evaluate("def kernel(mode, index): return 'wrong'\n", Mode.LEADERBOARD)
    assert {case.kind for case in seen.cases} == {CaseKind.TEST}


def test_a_failed_benchmark_run_ends_a_leaderboard_run_with_its_cases(folder: Folder) -> None:
    seen = folder.evaluate(
        "def kernel(mode, index): return 'slip' if mode == 'benchmark' and index else 'right'\n", Mode.LEADERBOARD
    )
    assert statuses(seen) == [Status.PASSED, Status.PASSED, Status.PASSED, Status.FAILED]
    assert "leaderboard" not in seen.outcome.phases_s
    assert seen.outcome.status is Status.FAILED


def test_profile_gives_the_reports(folder: Folder) -> None:
    folder.main = HONEST_MAIN.replace(
        "for key, value in", 'say(f"benchmark.{i}.report: VGFibGU+")\n        for key, value in'
    )
    logs = folder.path.parent / "logs"
    *events, outcome = PopcornEvaluation(folder.plan(mode=Mode.BENCHMARK), logs).profile()
    notes = [event.notes for event in events if hasattr(event, "notes")]
    assert notes == [("Table>",), ("Table>",)]
    assert outcome.status is Status.PASSED


# --- mains that break ---


@pytest.mark.parametrize("mark", ["", "In case (n: 2; seed: 8):\n"])
def test_cases_told_in_one_burst_have_their_own_traceback(folder: Folder, mark: str) -> None:
    """On a busy machine what was said of several cases is read at once, and with it what they wrote."""
    written = f"{mark}Traceback (most recent call last):\nValueError: too large\n"
    told = ["test-count: 2", "test.0.spec: n: 1; seed: 7", "test.0.status: pass", "test.1.spec: n: 2; seed: 8"]
    told += ["test.1.status: fail", "test.1.error: too large", "check: fail", ""]
    folder.main = f"{OPEN}os.write(2, {written.encode()!r})\nos.write(pipe.fileno(), {chr(10).join(told).encode()!r})\n"
    folder.main += "sys.exit(112)\n"
    seen = folder.evaluate()
    assert statuses(seen) == [Status.PASSED, Status.FAILED]
    assert seen.cases[1].reason is not None
    assert seen.cases[1].reason.code is ReasonCode.EXCEPTION
    assert "ValueError: too large" in seen.cases[1].traceback


def test_an_exception_that_ends_the_main_is_the_running_cases(folder: Folder) -> None:
    seen = folder.evaluate(
        "def kernel(mode, index):\n    if index: raise ValueError('negative size')\n    return 'right'\n"
    )
    assert statuses(seen) == [Status.PASSED, Status.FAILED]
    case = seen.cases[1]
    assert case.reason is not None
    assert case.reason.code is ReasonCode.EXCEPTION
    assert case.reason.message.startswith("ValueError: negative size")
    assert 'submission.py", line 2, in kernel' in case.traceback


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import no_such_module\n", ReasonCode.IMPORT_FAILED),
        ("def kernel(mode, index:\n", ReasonCode.IMPORT_FAILED),
        ("def kernel(mode, index): raise MemoryError\n", ReasonCode.OUT_OF_MEMORY),
        (
            "def kernel(mode, index): raise RuntimeError('CUDA error: an illegal memory access')\n",
            ReasonCode.CUDA_ERROR,
        ),
    ],
)
def test_kinds_of_exceptions(folder: Folder, source: str, code: ReasonCode) -> None:
    seen = folder.evaluate(source)
    assert seen.cases[0].reason is not None
    assert seen.cases[0].reason.code is code
    assert len(seen.cases) == 1
    assert "1 after it were not reached" in seen.cases[0].reason.message


@pytest.mark.parametrize(
    ("ending", "status", "code", "text"),
    [
        ("os.kill(os.getpid(), 11)", Status.ERROR, ReasonCode.CRASH, "SIGSEGV"),
        ("os._exit(0)", Status.ERROR, ReasonCode.CHANNEL, "no `check` line"),
        ("os._exit(9)", Status.ERROR, ReasonCode.CRASH, "exit status 9"),
        ("os._exit(110)", Status.ERROR, ReasonCode.CUDA_ERROR, "110"),
        ("os._exit(111)", Status.ERROR, ReasonCode.CHANNEL, "111"),
        ("os._exit(112)", Status.ERROR, ReasonCode.CHANNEL, "no `check` line"),
    ],
)
def test_ends_in_the_middle(folder: Folder, ending: str, status: Status, code: ReasonCode, text: str) -> None:
    seen = folder.evaluate(f"import os\ndef kernel(mode, index):\n    if index: {ending}\n    return 'right'\n")
    assert seen.cases[0].status is Status.PASSED
    assert seen.outcome.status is status
    assert seen.outcome.reason is not None
    assert seen.outcome.reason.code is code
    assert text in seen.outcome.reason.message


def test_exit_113_is_the_boards_fault(folder: Folder) -> None:
    folder.main = "import sys\nprint('odd case', file=sys.stderr)\nsys.exit(113)\n"
    with pytest.raises(RequestError, match=r"(?s)can't read its own cases.*odd case"):
        folder.evaluate()


def test_a_mode_that_the_main_lacks(folder: Folder) -> None:
    folder.main = HONEST_MAIN.replace("kind =", "if mode == 'leaderboard': sys.exit(2)\nkind =", 1)
    with pytest.raises(RequestError, match="no mode leaderboard"):
        folder.evaluate(mode=Mode.LEADERBOARD)


def test_a_module_that_the_board_needs_and_the_machine_lacks(folder: Folder) -> None:
    folder.main = "import tensor_comprehensions\n"
    with pytest.raises(MachineError, match="'tensor_comprehensions'") as caught:
        folder.evaluate()
    assert caught.value.exit_status == ExitStatus.MACHINE_CANNOT


def test_a_board_that_demands_cuda(folder: Folder) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    folder.main = "import torch\ntorch.zeros(1, device='cuda')\n"
    with pytest.raises(MachineError, match="demands a CUDA device"):
        folder.evaluate()


def test_a_submission_that_demands_cuda_is_told_its_own_error(folder: Folder) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    seen = folder.evaluate("import torch\ndef kernel(mode, index): return torch.zeros(1, device='cuda')\n")
    assert statuses(seen) == [Status.FAILED]
    assert "submission.py" in seen.cases[0].traceback


# --- what the pipe can't say ---


@pytest.mark.parametrize("mean", ["abc", "nan", "-3.0", "0", "inf", "", "1e999", "9" * 400])
def test_bad_numbers(folder: Folder, mean: str) -> None:
    folder.main = HONEST_MAIN.replace('"mean": 1500.25 + i', f'"mean": {mean!r}')
    seen = folder.evaluate(mode=Mode.BENCHMARK)
    assert statuses(seen) == [Status.ERROR] * 2
    assert seen.cases[0].reason is not None
    assert seen.cases[0].reason.code is ReasonCode.CHANNEL
    assert "benchmark.0.mean" in seen.cases[0].reason.message
    assert seen.cases[0].samples is None


def test_missing_figures(folder: Folder) -> None:
    folder.main = HONEST_MAIN.replace('"mean": 1500.25 + i, ', "")
    seen = folder.evaluate(mode=Mode.BENCHMARK)
    assert seen.cases[0].reason is not None
    assert "benchmark.0.mean is missing" in seen.cases[0].reason.message


def test_an_untold_case_does_not_pass(folder: Folder) -> None:
    folder.main = OPEN + 'print("test-count: 2\\ntest.0.spec: n: 1\\ntest.0.status: pass\\ncheck: pass", file=pipe)\n'
    seen = folder.evaluate()
    assert statuses(seen) == [Status.PASSED, Status.ERROR]
    assert seen.outcome.status is Status.ERROR


def test_check_fail_without_a_case_fails(folder: Folder) -> None:
    folder.main = HONEST_MAIN.replace('("pass" if passed else "fail")', '"fail"')
    seen = folder.evaluate()
    assert statuses(seen) == [Status.PASSED] * 2
    assert seen.outcome.status is Status.FAILED


def test_more_cases_than_were_asked_for(folder: Folder) -> None:
    folder.main = HONEST_MAIN.replace('say("check', 'say("test.7.status: pass")\nsay("check')
    seen = folder.evaluate()
    assert seen.outcome.status is Status.ERROR
    assert seen.outcome.reason is not None
    assert "test 7" in seen.outcome.reason.message


# --- dishonest and harmful ---

FORGED = """
import os
lines = "test-count: 2\\ntest.0.status: pass\\ntest.1.status: pass\\ncheck: pass\\n"
os.write(int(os.environ["POPCORN_FD"]), lines.encode())
os._exit(0)
"""


def test_a_forged_verdict_is_believed_and_never_ranks(folder: Folder) -> None:
    """What the protocol can't defend against; the reason that it ranks nowhere."""
    assert folder.evaluate(FORGED).outcome.status is Status.PASSED
    every_mode = (
        "import os, sys\n"
        "kind = 'test' if sys.argv[1] == 'test' else 'benchmark'\n"
        "text = ''.join(f'{kind}.{i}.status: pass\\n{kind}.{i}.mean: 1\\n' for i in range(2)) + 'check: pass\\n'\n"
        "os.write(int(os.environ['POPCORN_FD']), text.encode())\n"
        "os._exit(0)\n"
    )
    seen = folder.evaluate(every_mode, Mode.LEADERBOARD)
    assert seen.outcome.status is Status.PASSED
    assert seen.outcome.rank_reason is not None
    assert seen.outcome.rank_reason.code is ReasonCode.UNSEALED_PROTOCOL


def test_a_verdict_forged_beside_the_real_one_is_none(folder: Folder) -> None:
    source = (
        "import os\n"
        "def kernel(mode, index):\n"
        "    os.write(int(os.environ['POPCORN_FD']), f'test.{index}.status: pass\\n'.encode())\n"
        "    return 'wrong'\n"
    )
    seen = folder.evaluate(source)
    assert statuses(seen) == [Status.ERROR] * 2
    assert seen.cases[0].reason is not None
    assert "twice, differently" in seen.cases[0].reason.message


def test_a_check_forged_before_the_real_one_is_none(folder: Folder) -> None:
    source = "import os\nos.write(int(os.environ['POPCORN_FD']), b'check: pass\\n')\n" + RIGHT.replace("right", "wrong")
    seen = folder.evaluate(source)
    assert seen.outcome.status is not Status.PASSED


def test_a_hang_keeps_what_was_finished(folder: Folder) -> None:
    folder.task["test_timeout"] = "2"
    started = time.monotonic()
    seen = folder.evaluate("import time\ndef kernel(mode, index):\n    if index: time.sleep(60)\n    return 'right'\n")
    assert time.monotonic() - started < 15
    assert statuses(seen) == [Status.PASSED, Status.TIMEOUT]
    assert seen.outcome.reason is not None
    assert "no end within 2 s" in seen.outcome.reason.message


def test_the_users_own_limit_is_on_silence(folder: Folder) -> None:
    seen = folder.evaluate(
        "import time\ndef kernel(mode, index): time.sleep(60 * index); return 'right'\n", call_timeout_s=1.0
    )
    assert statuses(seen) == [Status.PASSED, Status.TIMEOUT]
    assert seen.cases[1].reason is not None
    assert seen.cases[1].reason.message.startswith("no result within 1 s")


def test_a_full_pipe_does_not_hang(folder: Folder) -> None:
    """The hosted service reads the pipe after the end, where more than 64 KiB hang the program."""
    seen = folder.evaluate("def kernel(mode, index): return 'x' * 300_000\n")
    assert statuses(seen) == [Status.FAILED] * 2
    assert seen.cases[1].reason is not None
    assert seen.cases[1].reason.message.endswith("x [...]")
    assert len(seen.log("test.pipe")) > 600_000


@pytest.mark.parametrize("stream", ["1", "2", "int(os.environ['POPCORN_FD'])"])
def test_a_flood_is_stopped_at_the_limit(folder: Folder, stream: str) -> None:
    flood = f"    while index: os.write({stream}, b'\\xff\\x00' * 32768)\n"
    source = f"import os\ndef kernel(mode, index):\n{flood}    return 'right'\n"
    seen = folder.evaluate(source)
    assert statuses(seen) == [Status.PASSED, Status.ERROR]
    assert seen.outcome.reason is not None
    assert seen.outcome.reason.code is ReasonCode.OUTPUT_LIMIT
    kept = sum(path.stat().st_size for path in seen.logs.iterdir())
    assert kept < 66 << 20


def test_nothing_of_it_lives_on(folder: Folder, tmp_path: Path) -> None:
    """A grandchild in a session of its own, which holds the pipe open, neither delays the end nor survives it."""
    source = (
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(47.25)'],\n"
        "                 start_new_session=True, pass_fds=[int(os.environ['POPCORN_FD'])])\n" + RIGHT
    )
    started = time.monotonic()
    seen = folder.evaluate(source)
    assert time.monotonic() - started < 15
    assert seen.outcome.status is Status.PASSED
    alive = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep(47.25)" in _bytes(path)]
    assert alive == []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_leaving_early_ends_the_program(folder: Folder) -> None:
    logs = folder.path.parent / "logs"
    source = "import time\ndef kernel(mode, index): time.sleep(46.75); return 'right'\n"
    events = PopcornEvaluation(folder.plan(source), logs).events()
    next(events)
    next(events)
    started = time.monotonic()
    events.close()
    assert time.monotonic() - started < 10


def test_the_boards_folder_and_the_logs_are_out_of_sight(folder: Folder) -> None:
    task = str(folder.path / "task.yml")
    source = f"import os\ndef kernel(mode, index): return 'seen' if os.path.exists({task!r}) else 'right'\n"
    seen = folder.evaluate(source)
    if seen.header.isolation.value not in ("namespaces", "bubblewrap"):
        pytest.skip(f"this machine gives isolation {seen.header.isolation} only")
    assert seen.outcome.status is Status.PASSED


# --- several GPUs ---


def test_too_few_gpus_names_both_numbers(folder: Folder) -> None:
    folder.task["multi_gpu"] = "true"
    folder.task["tests"] = '[{"world_size": 64, "n": 1}, {"world_size": 8, "n": 1}]'
    folder.task["benchmarks"] = '[{"world_size": 64, "n": 1}]'
    with pytest.raises(MachineError, match=r"needs 64 GPUs .* this machine has \d+") as caught:
        PopcornEvaluation(folder.plan(), folder.path.parent / "logs")
    assert caught.value.exit_status == ExitStatus.MACHINE_CANNOT
