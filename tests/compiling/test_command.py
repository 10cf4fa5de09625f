"""The command: what it prints, writes and keeps, and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from compiling_helpers import only_kernel

from harness.cli import compile as command
from harness.cli.main import cli
from harness.compiling import compile as supervisor
from harness.compiling.cache import ResultCache, key_of
from harness.compiling.comparison import compare_compilations
from harness.compiling.compile import Compiled
from harness.errors import HarnessError
from harness.store import Store, open_reader

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
Run = Callable[..., Result]


@pytest.fixture
def run(harness_compile: Run) -> Run:
    return harness_compile


def test_the_screen(run: Run) -> None:
    result = run(KERNELS / "triton_good.py", "--board", HERE / "tile", "--case", 0, "--arch", "sm_90a")
    assert result.return_value == 0
    assert "sm_90a (NVIDIA H200): COMPILED" in result.stdout
    assert "matmul" in result.stdout
    assert "wgmma 8" in result.stdout
    assert "triton_good.py:7" in result.stdout
    assert " · case 0 · " in result.stdout


def test_json_ptx_and_sass(run: Run, tmp_path: Path) -> None:
    result = run(
        KERNELS / "nvrtc_good.py", "--board", HERE / "tile", "--case", 0, "--arch", "sm_90a,sm_120a", "--json",
        "--ptx", tmp_path / "out", "--sass", tmp_path / "out",
    )  # fmt: skip
    assert result.return_value == 0
    first, second = json.loads(result.stdout)["compilations"]
    assert (first["architecture"], second["architecture"]) == ("sm_90a", "sm_120a")
    assert first["status"] == "compiled"
    assert first["kernels"][0]["resources"]["threads"] == 192
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == [f"{arch}-00-scale.{kind}" for arch in ("sm_120a", "sm_90a") for kind in ("ptx", "sass")]
    assert ".target sm_120a" in (tmp_path / "out" / "sm_120a-00-scale.ptx").read_text()


@pytest.mark.parametrize(
    ("name", "status"),
    [("plain_good.cu", 0), ("plain_error.cu", 1), ("torch_only.py", 2), ("reads_values.py", 3)],
)
def test_exit_status(run: Run, name: str, status: int) -> None:
    board = () if name.endswith(".cu") else ("--board", HERE / "tile", "--case", 0)
    assert run(KERNELS / name, *board, "--arch", "sm_100a").return_value == status


def test_a_gpu_names_its_architecture(run: Run) -> None:
    result = run(KERNELS / "plain_good.cu", "--arch", "h100,B200")
    assert "sm_90a (NVIDIA H200): COMPILED" in result.stdout
    assert "sm_100a (NVIDIA B200): COMPILED" in result.stdout


def test_a_build_says_that_it_begins(run: Run) -> None:
    result = run(KERNELS / "inline_good.py", "--board", HERE / "tile", "--case", 0, "--arch", "sm_90a", "--no-cache")
    assert result.return_value == 0, result.stdout
    assert result.stderr.count("sm_90a: nvcc: scale/cuda.cu\n") == 1
    assert "inputs of 1 case\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("triton_good.py", "--arch", "rtx"), "Or a GPU: A100, "),
        (("triton_good.py", "--arch", "sm_77"), "unknown architecture 'sm_77'"),
        (("triton_good.py", "--arch", ","), "names no architecture"),
        (("triton_good.py", "--board", str(HERE / "tile"), "--case", "9"), "there is no benchmark case 9"),
        (("no_such_file.py",), "there is no such file"),
        (("plain_good.cu", "--case", "0"), "has no cases"),
        (("plain_good.cu", "--board", "vectoradd", "--arch", "sm_1"), "unknown architecture"),
    ],
)
def test_bad_requests(run: Run, arguments: tuple[str, ...], told: str) -> None:
    result = run(KERNELS / arguments[0], *arguments[1:])
    assert isinstance(result.exception, HarnessError)
    assert result.exception.exit_status == 2
    assert told in str(result.exception)


def test_a_package_that_is_not_here_is_named_with_its_remedy(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("import cupy\n\ndef custom_kernel(data):\n    return data\n")
    result = run(file, "--board", HERE / "tile", "--case", 0, "--arch", "sm_100a")
    assert result.return_value == 3
    assert "pip install cupy" in result.stdout


def test_the_submission_sees_neither_reference_nor_network_nor_device(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import glob, os\n"
        "def custom_kernel(data):\n"
        "    raise ValueError(str([os.path.exists('reference.py'), glob.glob(os.path.dirname(__file__) + '/ref*'),\n"
        "        os.environ.get('CUDA_VISIBLE_DEVICES'), os.path.exists('/dev/nvidia0')]))\n"
    )
    result = run(file, "--board", HERE / "tile", "--case", 0, "--arch", "sm_100a")
    assert result.return_value == 1
    assert "ValueError: [False, [], '', False]" in result.stdout


def test_a_hang_ends_at_its_time(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("import time\ndef custom_kernel(data):\n    time.sleep(99)\n")
    result = run(file, "--board", HERE / "tile", "--case", 0, "--arch", "sm_100a", "--timeout", 4)
    assert result.return_value == 3
    assert "time ran out (case 0)" in result.stdout


def test_known_compilations_come_from_the_cache(compile_kernel, tmp_path: Path) -> None:
    compiled: Compiled = compile_kernel("plain_good.cu")
    cache = ResultCache(tmp_path)
    key, other = key_of(source="a", architecture="sm_100a"), key_of(source="a", architecture="sm_90a")
    assert key != other
    assert cache.get(key) is None
    cache.put(key, compiled.compilation, compiled.artefacts)
    assert cache.get(key) == (compiled.compilation, compiled.artefacts)
    assert cache.get(other) is None
    (tmp_path / key / "compilation.json").write_text("{")
    assert cache.get(key) is None  # damaged: a miss, not an error


def test_the_command_answers_from_the_cache_without_a_worker(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (KERNELS / "plain_good.cu", "--arch", "sm_100a", "--json")
    (first,) = json.loads(run(*arguments).stdout)["compilations"]
    monkeypatch.setattr(supervisor, "_compile", lambda *a: pytest.fail("compiled again"))
    (second,) = json.loads(run(*arguments).stdout)["compilations"]
    assert (first["cached"], second["cached"]) == (False, True)
    assert first["kernels"] == second["kernels"]


def test_kept_beside_a_submission_and_compared(run: Run, tmp_path: Path) -> None:
    old = (KERNELS / "nvrtc_branch.py").read_text()
    new = old.replace("kept[1024]", "kept[1536]")
    with Store.open() as store:
        ids = [store.add_submission("tile", "ada", "k.py", text) for text in (old, new)]
    for number in ids:
        assert run(number, "--arch", "sm_90a").return_value == 0
    from harness.compiling.kept import changes_of, kept_compilations

    with open_reader() as reader:
        first, second = (reader.submission(number) for number in ids)
        assert first is not None
        assert second is not None
        assert len(kept_compilations(reader, first)) == 1
        (change,) = changes_of(reader, first, second)
    told = [str(each) for each in change.kernels[0].changes]
    assert "shared bytes 4,096 → 6,144" in told
    shown = CliRunner().invoke(cli, ["diff", *map(str, ids)], standalone_mode=False).stdout
    assert "compiled for sm_90a" in shown
    assert "shared bytes 4,096 → 6,144" in shown
    assert (
        "sm_90a (NVIDIA H200): COMPILED" in CliRunner().invoke(cli, ["show", str(ids[0])], standalone_mode=False).stdout
    )


def test_architectures_may_be_given_one_by_one(run: Run) -> None:
    file = KERNELS / "nvrtc_good.py"
    result = run(file, "--board", HERE / "tile", "--case", 0, "--arch", "sm_90a", "--arch", "sm_120a,sm_90a", "--json")
    assert [each["architecture"] for each in json.loads(result.stdout)["compilations"]] == ["sm_90a", "sm_120a"]


def test_the_same_kernel_compares_as_the_same(compile_kernel) -> None:
    compilation = compile_kernel("plain_good.cu").compilation
    (change,) = compare_compilations(compilation, compilation).kernels
    assert change.changes == ()
    assert only_kernel(compile_kernel("plain_good.cu")).name == change.name


def test_the_command_imports_no_torch_itself() -> None:
    code = "import sys, harness.cli.compile, harness.compiling.compile; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
    assert command.compile_command.name == "compile"
