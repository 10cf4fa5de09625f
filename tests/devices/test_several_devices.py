"""Commands started at once spread over a machine's devices, each on the one that it holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from harness.boards.board import GridName
from harness.boards.find import find_board
from harness.cli.device import device_held, hold_devices
from harness.evaluation.claim import VISIBLE, claim_one_of, devices
from harness.evaluation.plan import Plan
from harness.evaluation.record import Mode, Protocol

BUSY_S = 3.0
KERNEL = f"""#!POPCORN leaderboard vectoradd
import os
import time

import torch

seen = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]
print(f"ran on {{os.environ.get('{VISIBLE}')}}, which torch sees as {{','.join(seen)}};", flush=True)
time.sleep({BUSY_S})

def custom_kernel(data):
    return data[0] + data[1]
"""
DRIVER = """
UUIDS = {uuids!r}

class NVMLError(Exception):
    pass

def nvmlInit():
    pass

def nvmlShutdown():
    pass

def nvmlDeviceGetCount():
    return len(UUIDS)

def nvmlDeviceGetHandleByIndex(index):
    return index

def nvmlDeviceGetUUID(handle):
    return UUIDS[handle]
"""
"""In the place of `pynvml`: devices that nobody has, for a run that goes on the processor then."""
MAKE_BELIEVE = ["GPU-make-believe-0", "GPU-make-believe-1"]
WAITS = re.compile(r"waiting for the device: another evaluation runs on it \((.*)\)")


@dataclass(frozen=True)
class Ran:
    """What became of a command: the device that it held, what torch in its worker saw, and the processes that it was
    told to wait for."""

    pid: int
    status: int
    device: str
    seen: str
    waited_for: tuple[int, ...]
    told: str


def run_at_once(folder: Path, count: int, environment: Mapping[str, str]) -> list[Ran]:
    """So many `harness run` of a kernel that takes some seconds. The holders of devices are looked for among the
    temporary files: these commands have their own, so that they wait for one another alone."""
    (folder / "tmp").mkdir()
    file = folder / "kernel.py"
    file.write_text(KERNEL)
    command = [sys.executable, "-m", "harness.cli.main", "run", str(file), "--case", "0", "--json"]
    own = {**environment, "TMPDIR": str(folder / "tmp"), "HARNESS_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, env=own, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        return [_ran(process, *process.communicate(timeout=300)) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _ran(process: subprocess.Popen[str], out: str, err: str) -> Ran:
    assert process.returncode == 0, err
    log = Path(json.loads(out)["evaluation"]["log"])
    printed = "".join(each.read_text() for each in sorted(log.glob("**/*.log")))
    found = re.search(r"ran on (\S+), which torch sees as (\S*);", printed)
    assert found, printed
    return Ran(process.pid, process.returncode, found[1], found[2], waits_for(err), err)


def waits_for(told: str) -> tuple[int, ...]:
    """The processes that a command says it waits for; none if it does not wait."""
    said = WAITS.findall(told)
    assert len(said) <= 1, told
    return tuple(int(number) for number in re.findall(r"process (\d+)", said[0])) if said else ()


def check_spread(runs: Sequence[Ran], names: Sequence[str]) -> None:
    """One more than there are devices: each device had one at the same time, and the last waited for these."""
    waiting = [run for run in runs if run.waited_for]
    assert len(waiting) == 1, [run.told for run in runs]
    (last,) = waiting
    others = [run for run in runs if run is not last]
    assert sorted(last.waited_for) == sorted(run.pid for run in others)  # all of these held theirs just then
    assert sorted(run.device for run in others) == sorted(names)
    assert last.device in names
    assert [run.status for run in runs] == [0] * (len(names) + 1)


@pytest.mark.gpu
@pytest.mark.slow
def test_runs_spread_over_all_gpus(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    names = devices() if torch.cuda.is_available() else []
    if len(names) < 2:
        pytest.skip(f"NOT TESTED on several GPUs: needs two CUDA devices, this machine has {len(names)}")
    runs = run_at_once(tmp_path, len(names) + 1, os.environ)
    check_spread(runs, names)
    for run in runs:  # the worker's torch has that device, and no other
        assert run.seen.removeprefix("GPU-") == run.device.removeprefix("GPU-")


@pytest.fixture
def make_believe(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine whose driver tells of two devices, on which torch has none."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "pynvml.py").write_text(DRIVER.format(uuids=MAKE_BELIEVE))
    paths = f"{tmp_path / 'driver'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    kept = {name: value for name, value in os.environ.items() if name != VISIBLE}
    return {**kept, "PYTHONPATH": paths, "HARNESS_HOME": str(tmp_path / "home")}


@pytest.mark.slow
def test_runs_spread_over_all_devices_of_the_driver(tmp_path: Path, make_believe: dict[str, str]) -> None:
    """The same by a driver that is made up; each runs on the processor, which is what torch then finds."""
    check_spread(run_at_once(tmp_path, 3, make_believe), MAKE_BELIEVE)


@pytest.mark.parametrize(
    "arguments",
    [("run", "k.py"), ("submit", "k.py"), ("compare", "k.py", "k.py"), ("calibrate",), ("lint", "vectoradd")],
    ids=lambda arguments: arguments[0],
)
def test_every_command_that_uses_a_device_waits_for_one(
    tmp_path: Path, make_believe: dict[str, str], arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.py").write_text(KERNEL)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = [claim_one_of([name], print) for name in MAKE_BELIEVE]
    command = [sys.executable, "-m", "harness.cli.main", *arguments]
    environment = {**make_believe, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        told = next((line for line in process.stderr if WAITS.search(line)), "")
        assert waits_for(told) == (os.getpid(), os.getpid())
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        for claim in held:
            assert claim is not None
            claim.release()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Four devices for this process."""
    names = [f"GPU-make-believe-{letter}" for letter in "dbca"]
    module = ModuleType("pynvml")
    exec(DRIVER.format(uuids=names), vars(module))
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(VISIBLE, "0,1,2,3")
    return names


def test_a_device_is_free_again_after_the_command(driver: list[str]) -> None:
    for _ in range(2):  # the second would wait for ever
        with device_held():
            assert os.environ[VISIBLE] == driver[0]


@pytest.mark.parametrize(("world_size", "held"), [(1, 1), (3, 3), (9, 4)])
def test_a_board_of_several_gpus_holds_several(driver: list[str], world_size: int, held: int) -> None:
    """By the popcorn protocol, the only one that runs such a board."""
    from dataclasses import replace

    board = replace(find_board("vectoradd"), multi_gpu=True)
    spec = {"world_size": world_size, "size": 8, "seed": 1}
    plan = Plan(board, KERNEL, "k.py", Mode.TEST, GridName.FULL, Protocol.POPCORN, spec=spec)
    claims = hold_devices(plan)
    try:
        assert os.environ[VISIBLE].split(",") == driver[:held]
        assert sorted(claim.device for claim in claims) == sorted(driver[:held])
    finally:
        for claim in claims:
            claim.release()
