"""`scripts/bench_cholesky` and `bench_cholesky_phases` without their GPU: commands, tables, stamped kernels, shares."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from emulated import ROOT, load_submission

from harness.compiling.nvcc import compile_cuda
from harness.compiling.tools import ToolMissingError


def script(name: str) -> Any:
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def phases() -> Any:
    return script("bench_cholesky_phases")


@pytest.fixture(scope="module")
def best() -> ModuleType:
    return load_submission("cholesky", "cholesky_best.py")


def document(us: float) -> dict[str, Any]:
    case = {"kind": "benchmark", "status": "passed", "spec": {"batch": 2, "n": 64}, "median_us": us}
    versions = {"torch": "2.11"}
    return {"evaluation": {"status": "passed", "device": "NVIDIA H200", "versions": versions, "cases": [case]}}


@pytest.mark.parametrize("protocol", ["sealed", "popcorn"])
def test_each_protocol_has_its_command_and_its_files(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = script("bench_cholesky")
    commands: list[list[str]] = []

    def finished(command: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
        assert seconds == 200
        commands.append(command)
        text = json.dumps({"2·64": 0.5} if "--residuals" in command else document(4.0 / len(commands)))
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(bench, "finished", finished)
    asked = ["bench_cholesky", str(tmp_path), "--protocol", protocol, "--seconds", "200", "a.py", "b.py"]
    monkeypatch.setattr(sys, "argv", asked)
    assert bench.main() == 0
    end = "" if protocol == "sealed" else "-popcorn"
    assert {path.name for path in tmp_path.iterdir()} == {f"a{end}.json", f"b{end}.json", f"cholesky{end}.md"}
    runs = [command for command in commands if "run" in command]
    assert [command[command.index("--protocol") + 1] for command in runs] == [protocol] * 2
    assert len(commands) - len(runs) == (2 if protocol == "sealed" else 0)
    table = capsys.readouterr().out
    assert table.startswith(f"# Cholesky on NVIDIA H200, {protocol} protocol, torch 2.11")
    assert ("Scaled residuals" in table) == (protocol == "sealed")
    assert "| geomean | 4.0 |" in table


def test_a_refused_run_is_a_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = script("bench_cholesky")
    refused = subprocess.CompletedProcess([], 3, json.dumps({"error": "no device"}), "")
    monkeypatch.setattr(bench, "finished", lambda command, seconds: refused)
    found = bench.measure(Path("a.py"), tmp_path, 10, "popcorn")
    assert found["evaluation"] == {"status": "exit status 3", "cases": []}
    assert bench.title(found["evaluation"], "popcorn").startswith("# Cholesky on no device")


@pytest.mark.parametrize("name", ["SMALL_SOURCE", "TASK_SOURCE"])
def test_stamps_only_add_to_the_kernels(phases: Any, best: ModuleType, name: str) -> None:
    plain = getattr(best, name)
    stamped = phases.stamped(plain)
    assert "BEGIN_" not in stamped
    assert "END_" not in stamped
    rest = iter("".join(stamped.split()))  # every character of the plain text is in it, in order
    assert all(character in rest for character in "".join(plain.split()))
    with pytest.raises(ValueError, match="0 times, not once"):
        phases.stamped(plain.replace("float sum[64]", "float total[64]").replace("float left", "float right"))


@pytest.mark.thorough
def test_stamped_kernels_compile_to_as_many_registers(phases: Any, best: ModuleType, tmp_path: Path) -> None:
    """So that as many blocks fit; and no product of theirs waits for the one before."""

    def registers(source: str, name: str) -> list[str]:
        file = tmp_path / f"{name}.cu"
        file.write_text(source)
        try:
            log = compile_cuda(file, "sm_90a").log
        except ToolMissingError as error:
            pytest.skip(str(error))
        assert "serialized" not in log
        return re.findall(r"Used (\d+) registers", log)

    for number, source in enumerate((best.SMALL_SOURCE, f"#define WHOLE true\n{best.TASK_SOURCE}")):
        plain = registers(source, f"plain{number}")
        assert len(plain) == 2
        assert registers(phases.stamped(source), f"stamped{number}") == plain


def test_shares_of_all_blocks(phases: Any) -> None:
    names = [*phases.PHASES]
    first, second = ([0] * phases.SLOTS for _ in range(2))
    first[1 + names.index("products")], first[1 + names.index("operands")] = 60, 40
    second[1 + names.index("products")] = 50
    second[16 + [*phases.WAITS].index("stage")] = 30
    second[1 + names.index("factor")] = 25
    found = phases.shares([first, second], persistent=True, small=False, batch=4)
    told = {name: part for name, part in found.items() if part}
    parts = {"products": 0.55, "operands": 0.2, "factor": 0.125, "no task": 0.125}
    assert told == pytest.approx({**parts, "chain: factor": 0.0625, "stage": 0.15})
    assert sum(found[name] for name in (*phases.PHASES, *phases.NO_TASK)) == pytest.approx(1)


def test_shares_of_blocks_that_come_and_go(phases: Any) -> None:
    found = phases.shares([[0, 1, 2, 1] + [0] * 28, [0, 3, 2, 1] + [0] * 28], persistent=False, small=True)
    assert found == pytest.approx({"load": 0.4, "factor": 0.4, "store": 0.2})


def test_the_enumerators_are_the_phases(phases: Any) -> None:
    for names in (phases.PHASES, phases.WAITS):
        assert f"enum {{ {', '.join(name.upper().replace(' ', '_') for name in names)} }};" in phases.STAMPS


def test_a_table_of_each_kind(phases: Any) -> None:
    kernels = {"factor_kernel": (2, 30.0), "update_kernel": (1, 70.0)}
    parts = phases.shares([[0, 1, 2, 1] + [0] * 28], persistent=False, small=True)
    row = {"call_us": 110.0, "kernels": kernels, "stamped_us": 111.0, "same": True, "shares": parts}
    text = "\n".join(phases.tables({"best": {"2·64": row}, "other": {"2·64": {"call_us": 5.0, "kernels": {}}}}))
    assert "| 2·64 | 110.0 | 3 | 100.0 | factor_kernel 2× 30.0, update_kernel 1× 70.0 |" in text
    assert "| 2·64 | 111.0 | yes | 25.0 | 50.0 | 25.0 |" in text
    assert "| 2·64 | 5.0 | 0 | 0.0 |  |" in text


def test_names_of_kernels(phases: Any) -> None:
    assert phases.short_name("void at::native::(anonymous namespace)::fill<4, F<float> >(int, F<float>)") == "fill"
    assert phases.short_name("factor_kernel") == "factor_kernel"
    long = {phases.short_name(f"kernel_{'x' * 90}_{kind}") for kind in (0, 1)}
    assert len(long) == 2
    assert {len(name) for name in long} == {56}
