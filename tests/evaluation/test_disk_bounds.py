"""What a submission writes to the disk neither breaks the harness nor fills the disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.boards.loader import load_board
from harness.evaluation import host as host_module
from harness.evaluation.evaluate import Evaluation
from harness.evaluation.host import CACHE, Host
from harness.evaluation.plan import Plan
from harness.evaluation.record import CaseResult, IsolationLevel, Mode, ReasonCode, Status
from harness.sandbox import best_level, default_plan
from harness.trees import Bounds, remove_tree

BOARD = load_board(Path(__file__).parents[2] / "scripts" / "faults" / "board")
KERNEL = """#!POPCORN leaderboard board
# triton, so that there is a build phase
import os
import pathlib
import socket

PHASE = pathlib.Path(__file__).parts[-3].split("-")[1]
CACHE = os.environ["TRITON_CACHE_DIR"]
os.makedirs(CACHE, exist_ok=True)
print(sorted(os.listdir(CACHE))[:3], flush=True)
{loading}


def custom_kernel(data):
    {calling}
    return data + 1
"""
MIB = 1 << 20
IN_THE_BUILD = {
    "a named pipe": "os.mkfifo(CACHE + '/x')",
    "a socket": "socket.socket(socket.AF_UNIX).bind(CACHE + '/x')",
    "a deep tree": """os.chdir(CACHE)
    for _ in range(1100): os.mkdir('d' * 200); os.chdir('d' * 200)
    os.chdir('/')""",
    "a sparse file": "os.truncate(os.open(CACHE + '/x', os.O_CREAT | os.O_WRONLY), 2 << 30)",
    "a closed folder": "os.mkdir(CACHE + '/x', 0o300)",
    "no cache at all": "os.rmdir(CACHE)",
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def temp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the scratch folders lie, and nothing else."""
    path = Path(tempfile.mkdtemp(prefix="harness-disk-test-"))
    path.chmod(0o755)  # workers of another uid pass through
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    remove_tree(path)


@pytest.fixture
def evaluate(tmp_path: Path, temp: Path) -> Callable[..., list[CaseResult]]:
    def run(loading: str = "pass", calling: str = "pass") -> list[CaseResult]:
        source = KERNEL.format(loading=loading, calling=calling)
        plan = Plan(BOARD, source, "kernel.py", Mode.BENCHMARK, isolation=best_level())
        results = [event for event in Evaluation(plan, tmp_path / "logs").events() if isinstance(event, CaseResult)]
        assert [path.name for path in temp.glob("harness-run-*")] == []
        return results

    return run


@pytest.mark.parametrize("what", IN_THE_BUILD)
def test_left_in_the_cache_by_the_build(what: str, evaluate: Callable[..., list[CaseResult]], tmp_path: Path) -> None:
    results = evaluate(f'if PHASE == "build":\n    {IN_THE_BUILD[what]}')
    assert {result.status for result in results} == {Status.PASSED}
    later = [log.read_text() for log in sorted((tmp_path / "logs").glob("*-benchmark.log"))]
    assert later == ["['x']\n" if what == "a closed folder" and os.getuid() == 0 else "[]\n"]


def test_more_than_the_bound_is_stopped_and_gone(
    evaluate: Callable[..., list[CaseResult]], temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "default_plan", partial(default_plan, disk_bytes=8 * MIB))
    write = "[pathlib.Path(CACHE, str(n)).write_bytes(bytes(4 << 20)) for n in range(3)]"
    results = evaluate(calling=f'if PHASE == "benchmark": {write}')
    assert {result.status for result in results} == {Status.ERROR}
    for result in results:
        assert result.reason is not None
        assert result.reason.code is ReasonCode.OUTPUT_LIMIT
        assert result.reason.message.endswith("wrote more than 8 MiB of files and was stopped")


def test_no_file_may_be_larger_than_the_bound() -> None:
    plan = default_plan(IsolationLevel.NONE, scratch=Path("/tmp"), cuda=False, file_bytes=3 * MIB, disk_bytes=2 * MIB)
    assert plan.file_bytes == 2 * MIB
    plan = default_plan(IsolationLevel.NONE, scratch=Path("/tmp"), cuda=False)
    assert plan.file_bytes == plan.disk_bytes


@pytest.mark.parametrize("level", [IsolationLevel.NONE, IsolationLevel.NAMESPACES])
def test_what_the_disk_bound_counts(level: IsolationLevel, tmp_path: Path) -> None:
    """The home too, where it is not memory."""
    cache, home = tmp_path / "cache", tmp_path / "home"
    plan = default_plan(level, scratch=home, cuda=False, writable=[cache], readable=[tmp_path])
    assert plan.writable_folders == ((str(cache), str(home)) if level is IsolationLevel.NONE else (str(cache),))


def test_too_much_is_not_kept_and_that_is_told(tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "KEPT", Bounds(MIB, 100))
    with Host(BOARD, "", cuda=False, isolation=IsolationLevel.NONE, logs=tmp_path / "logs") as host:
        worker, folder = host.start("build", with_submission=False)
        (folder / CACHE / "object").write_bytes(bytes(MIB))
        worker.kill()
        assert host.keep_caches(folder) == ""
        worker, second = host.start("build", with_submission=False)
        assert (second / CACHE / "object").exists()
        assert not folder.exists(), "what ended workers leave does not add up"
        (second / CACHE / "more").write_bytes(b"x")
        worker.kill()
        assert host.keep_caches(second) == (
            "the compilers' caches are not kept, so that each worker compiles anew: they hold more than 1 MiB of files"
        )
        _, third = host.start("test", with_submission=False)
        assert os.listdir(third / CACHE) == []
        assert second.exists() is False
