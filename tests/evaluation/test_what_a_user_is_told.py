"""What a run tells of the submission beside its verdict: what it printed, what it lacks, what to rename."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.worker.entry import NoEntryError, load_entry

from .conftest import Command

Write = Callable[..., Path]
GOOD = "def custom_kernel(data):\n    return data[0] + data[1]\n"
PRINTED = re.compile(r"it printed ([\d,]+) bytes?: (\S+)")
HINT = "this machine has no CUDA device; `harness compile FILE --arch sm_90a` works here"


@pytest.fixture
def temporary(command: Command, tmp_path: Path) -> Path:
    """A folder for temporary files of the command's own; workers under another uid pass through it."""
    tmp_path.chmod(0o711)
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o711)
    command.environment["TMPDIR"] = str(folder)
    return folder


def run_logs(temporary: Path) -> list[Path]:
    return list(temporary.glob("harness-logs-*"))


def test_a_silent_run_that_passes_leaves_nothing_and_names_nothing(
    command: Command, write: Write, temporary: Path
) -> None:
    answer = command("run", write(GOOD), "--case", "0")
    assert answer.status == 0, answer.err
    assert "logs:" not in answer.out
    assert "printed" not in answer.out
    assert run_logs(temporary) == []
    assert command("run", write(GOOD), "--case", "0", "--mode", "test", "--json").evaluation["log"] is None
    assert command("run", write(GOOD), "--case", "99").status == 2
    assert run_logs(temporary) == []


def test_what_it_printed_is_told_with_its_log(command: Command, write: Write, temporary: Path) -> None:
    """Once a log, with the import's output, over all cases, passed or failed."""
    loud = "print('12345')\ndef custom_kernel(data):\n    print('123456789')\n    return data[0] + data[1]\n"
    for body, status in ((loud, 0), (loud.replace("return", "raise ValueError #"), 1)):
        answer = command("run", write(body), "--mode", "test", "--case", "0", "--case", "1")
        assert answer.status == status, answer.err
        [(size, log)] = PRINTED.findall(answer.out)
        assert int(size) == Path(log).stat().st_size == 6 + 2 * 10
    broken = command("run", write("print('12345')\nraise ValueError\n"), "--mode", "test", "--case", "0")
    assert [size for size, _ in PRINTED.findall(broken.out)] == ["6"]
    assert len(run_logs(temporary)) == 3


def test_a_record_keeps_what_was_printed(command: Command, write: Write) -> None:
    body = "print('12345')\n" + GOOD
    told = PRINTED.findall(command("submit", write(body), "--case", "0").out)
    assert [size for size, _ in told] == ["6", "6"]  # the tests' log and the benchmarks'
    shown = command("show", "1", "--no-code").out
    assert PRINTED.findall(shown) == told


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize(
    ("body", "hinted"),
    [
        ("import torch\nk = torch.cuda._compile_kernel('__global__ void k() {}', 'k')\n", True),
        (
            "from torch.utils.cpp_extension import load_inline\n"
            "load_inline(name='m', cpp_sources=[''], cuda_sources=['__global__ void k() {}'], functions=[])\n",
            True,
        ),
        ("def custom_kernel(data):\n    return data[0].cuda()\n", True),
        ("def custom_kernel(data):\n    raise ValueError('7 is odd')\n", False),
    ],
    ids=["compile_kernel", "load_inline", "cuda", "another exception"],
)
def test_cuda_without_a_device_fails_with_a_hint(body: str, hinted: bool, command: Command, write: Write) -> None:
    command.environment.pop("CUDA_HOME", None)
    answer = command("run", write(body), "--case", "0", "--json")
    assert answer.status == 1
    assert answer.evaluation["status"] == "failed"
    assert (HINT in answer.evaluation["reason"]["message"]) is hinted


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("def kernel(data):\n    return data[0] + data[1]\n", ": rename kernel to custom_kernel"),
        ("def kernel(a, b, c, d):\n    pass\n", ", and kernel() takes 4 where the data of this board has 2 items"),
    ],
)
def test_a_function_of_another_name(body: str, ending: str, command: Command, write: Write) -> None:
    reason = command("run", write(body), "--case", "0", "--json").evaluation["reason"]
    assert reason["code"] == "no_entry"
    assert reason["message"].endswith(ending)


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("def my_sum(data, how=1):\n    return data[0] + data[1]\n", ": rename my_sum to custom_kernel"),
        ("def one(data):\n    pass\ndef other(data):\n    pass\n", "custom_kernel(data)"),
        ("from os.path import basename\ndef _own(data):\n    pass\n", "custom_kernel(data)"),
    ],
)
def test_no_function_of_a_known_name(body: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "names_no_entry.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "names_no_entry", raising=False)
    with pytest.raises(NoEntryError) as raised:
        load_entry("names_no_entry.py")
    assert str(raised.value).endswith(ending)


def test_a_gpu_that_the_board_has_not_is_warned_of(command: Command, write: Write) -> None:
    told = "is not one of this board's GPUs (B200, "
    only = ("--mode", "test", "--case", "0")
    assert f"warning: 'RTX9999' {told}" in command("run", write("#!POPCORN gpu RTX9999\n" + GOOD), *only).err
    assert told not in command("run", write("#!POPCORN gpu b200\n" + GOOD), *only).err


@pytest.mark.parametrize("name", ["submit", "run"])
def test_no_gpu_is_called_nothing(name: str, command: Command, write: Write) -> None:
    answer = command(name, write("#!POPCORN gpu B200\n" + GOOD), "--gpu", "", "--case", "0")
    assert answer.status == 2
    assert "--gpu: '' is no GPU's name (allowed: e.g. H200, B200)\nLeave --gpu out" in answer.err


def test_a_warning_is_told_once_to_one_reader(command: Command, write: Write) -> None:
    """On one stream the result says no warning again that the progress said; a result by itself has them all."""
    command.environment["PYTHONPATH"] = str(command.folder / "busy")
    (command.folder / "busy").mkdir()
    (command.folder / "busy" / "sitecustomize.py").write_text("import os\nos.getloadavg = lambda: (99.0, 99.0, 99.0)\n")
    argv = command.argv("run", write(GOOD), "--mode", "benchmark", "--case", "0")
    for stderr, count in ((subprocess.STDOUT, 1), (subprocess.DEVNULL, 1)):
        done = subprocess.run(
            argv, cwd=command.folder, env=command.environment, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        assert " ".join(done.stdout.split()).count("this machine is busy (load 99.0") == count, done.stdout
