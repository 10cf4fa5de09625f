"""`harness doctor` on this machine, and on machines with something broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from click.testing import CliRunner, Result

from harness.cli.doctor import document, summary
from harness.cli.main import cli
from harness.doctor import advice, gpu, machine
from harness.doctor.findings import Finding, Level, note, ok, problem
from harness.doctor.gpu import by_driver, throttling
from harness.doctor.machine import gigabytes, program_version
from harness.doctor.records import boards, popcorn_client, store

AREAS = {"Python", "system", "cores", "memory", "disk (store)", "disk (scratch)", "store", "boards", "popcorn client"}
AREAS |= {"Triton", "Helion", "CuTe DSL", "nvcc", "ptxas", "isolation", "control group", "torch"}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HARNESS_DATABASE_URL", raising=False)
    return tmp_path / "home"


def doctor(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments], env={"COLUMNS": str(columns)}, standalone_mode=False)


def test_this_machine_as_json(own_home: Path) -> None:
    result = doctor("--json")
    assert result.exception is None
    assert result.return_value == 0
    told = json.loads(result.stdout)
    assert (told["usable"], told["can_record"]) == (True, True)
    assert {finding["area"] for finding in told["findings"]} >= AREAS
    assert set(told["findings"][0]) == {"area", "level", "text", "advice", "blocks", "stops_recording", "details"}
    areas = {finding["area"]: finding for finding in told["findings"]}
    assert areas["cores"]["details"]["usable"] >= 1
    assert "cholesky" in areas["boards"]["details"]["boards"]
    assert not own_home.exists()  # looking makes nothing


def test_this_machine_in_80_columns() -> None:
    result = doctor()
    lines = result.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line != line.rstrip()] == []
    assert lines[0].startswith("ok      Python         3.")
    assert lines[-1].startswith("Kernels can be checked and measured here; problems: ")


def test_torch_is_imported_last() -> None:
    script = (
        "import sys\n"
        "from harness.doctor import diagnose\n"
        "for finding in diagnose():\n"
        "    if finding.area in ('torch', 'CUDA'): break\n"
        "    assert 'torch' not in sys.modules, finding\n"
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_without_torch_the_rest_is_still_told_and_the_status_is_3() -> None:
    script = "import sys\nsys.modules['torch'] = None\nfrom harness.cli.main import main\nmain(['doctor'])\n"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 3
    assert "problem torch" in run.stdout
    assert "isolation" in run.stdout
    assert "No kernel can be checked and measured here: torch." in run.stdout
    assert "Traceback" not in run.stderr


def test_a_damaged_store_is_told_and_left_as_it_is(own_home: Path) -> None:
    own_home.mkdir()
    file = own_home / "harness.sqlite3"
    file.write_bytes(b"no database at all, but a file of some length" * 100)
    before = file.read_bytes()
    (finding,) = store()
    assert (finding.level, finding.blocks, finding.stops_recording) == (Level.PROBLEM, False, True)
    assert "not a SQLite database" in finding.text
    assert finding.advice
    assert file.read_bytes() == before
    assert [path.name for path in own_home.iterdir()] == ["harness.sqlite3"]


def test_a_store_with_submissions(own_home: Path) -> None:
    from harness.store import Store

    with Store.open() as opened:
        opened.add_submission("cholesky", "user", "a.py", "x = 1\n", ())
    (finding,) = store()
    assert finding.level is Level.OK
    assert finding.details["submissions"] == 1
    assert finding.text.endswith("(1 submission)")


def test_a_database_that_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", "mysql://user:secret@host/name")
    (finding,) = store()
    assert finding.level is Level.PROBLEM
    assert "secret" not in finding.text


def test_a_broken_board_is_named_and_the_others_still_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "boards" / "halfway"
    broken.mkdir(parents=True)
    (broken / "task.yml").write_text("lang: py\n")
    monkeypatch.setenv("HARNESS_LEADERBOARDS", os.pathsep.join([str(tmp_path / "boards"), str(tmp_path / "nowhere")]))
    found = list(boards())
    assert [(finding.area, finding.level) for finding in found] == [
        ("boards", Level.OK),
        ("board halfway", Level.PROBLEM),
        ("boards", Level.PROBLEM),
    ]
    assert "task.yml" in found[1].text
    assert "nowhere" in found[2].text
    assert not any(finding.blocks for finding in found)


def test_the_public_clients_file_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (absent,) = popcorn_client()
    assert absent.level is Level.NOTE
    (tmp_path / ".popcorn.yaml").write_text("cli_id: very-secret\n")
    (present,) = popcorn_client()
    assert present.level is Level.OK
    assert "very-secret" not in json.dumps(present.to_dict())


def test_throttling_reasons_leave_out_idling_and_the_users_own_settings() -> None:
    assert throttling(0x1 | 0x2) == []
    assert throttling(0x4 | 0x40) == ["power cap", "thermal slowdown by hardware"]


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("Cuda compilation tools, release 13.0, V13.0.88", "13.0"),
        ("g++ (Debian 12.2.0-14) 12.2.0", "12.2.0"),
        ("1.11.1", "1.11.1"),
        ("no number", ""),
    ],
)
def test_versions_of_programs(tmp_path: Path, printed: str, version: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{printed}'\n")
    program.chmod(0o755)
    assert program_version(str(program)) == version
    assert program_version(str(tmp_path / "absent")) == ""


def test_the_last_line() -> None:
    findings = [ok("a", "fine"), note("b", "less"), problem("c", "broken", "mend it")]
    assert summary(findings) == "Kernels can be checked and measured here; problems: 1, notes: 1."
    findings.append(problem("d", "gone", "get it", blocks=True))
    assert summary(findings) == "No kernel can be checked and measured here: d."
    assert gigabytes(3 << 29) == "1.5 GiB"


def test_findings_become_plain_data() -> None:
    finding = problem("GPU 0", "busy", "wait", blocks=True, other_processes=[7, 8])
    assert json.loads(json.dumps(finding.to_dict())) == {
        "area": "GPU 0",
        "level": "problem",
        "text": "busy",
        "advice": "wait",
        "blocks": True,
        "stops_recording": False,
        "details": {"other_processes": [7, 8]},
    }


@pytest.mark.gpu
def test_a_gpu_by_its_driver() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    found: list[Finding] = [finding for finding in by_driver() if finding.level is Level.OK]
    assert found[0].area == "GPU 0"
    assert found[0].details["name"] == torch.cuda.get_device_name(0)
    total = found[0].details["memory_total_bytes"]
    assert isinstance(total, int)
    assert total > 1 << 30


def test_each_of_several_gpus_runs_a_first_kernel() -> None:
    """One that fails is named by its number; the others are told all the same."""

    def zeros(count: int, device: str) -> MagicMock:
        if device == "cuda:1":
            raise RuntimeError("CUDA error: uncorrectable ECC error\nand more")
        return MagicMock()

    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 3, get_device_name=lambda index: f"H{index}")
    failing, working = gpu._reach(SimpleNamespace(zeros=zeros, cuda=cuda), "13.0")
    assert failing.level is Level.PROBLEM
    assert failing.text == "a first kernel fails on device 1: RuntimeError: CUDA error: uncorrectable ECC error"
    assert working.text == "torch runs on H0, H2; an evaluation uses one of them that is free"
    cuda.device_count = lambda: 1
    (only,) = gpu._reach(SimpleNamespace(zeros=zeros, cuda=cuda), "13.0")
    assert only.text == "torch runs on H0"


def test_a_home_that_is_a_file(own_home: Path) -> None:
    own_home.write_text("a file")
    (finding,) = store()
    assert finding.stops_recording
    assert finding.text.endswith(f"{own_home} is no folder")


def test_where_nothing_can_be_recorded_the_last_line_and_the_document_say_so(own_home: Path) -> None:
    own_home.write_text("a file")
    result = doctor()
    assert result.return_value == 0  # `harness run` works
    last = result.stdout.splitlines()[-1]
    assert last.startswith("Nothing can be recorded here: `harness submit` fails, `harness run` works; problems: ")
    assert document([]) == {"usable": True, "can_record": True, "findings": []}
    assert document(list(store()))["can_record"] is False


def test_advice_names_this_interpreter_and_this_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a tree").mkdir()
    monkeypatch.setattr(advice, "_ABOVE_PACKAGE", tmp_path / "a tree")
    monkeypatch.setattr(sys, "executable", "/opt/py/bin/python3")
    assert advice.install_extra("triton") == "/opt/py/bin/python3 -m pip install 'harness[triton]'"
    (tmp_path / "a tree" / "pyproject.toml").write_text('[project]\nname = "harness"\n')
    wanted = f"/opt/py/bin/python3 -m pip install -e '{tmp_path / 'a tree'}[triton]'"
    assert advice.install_extra("triton") == wanted
    assert advice.install("ninja") == "/opt/py/bin/python3 -m pip install ninja"


def test_every_advice_to_install_is_for_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "installed_version", lambda name: None)
    for finding in machine.packages():
        assert finding.advice.startswith(f"{sys.executable} -m pip install "), finding
