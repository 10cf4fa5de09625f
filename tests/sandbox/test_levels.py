"""The other levels, control groups, refusals, and the probe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox_launch import Launcher, make_launcher

from harness.evaluation.record import IsolationLevel
from harness.sandbox import Bind, Cgroup, SandboxError, SandboxPlan, best_level, bwrap_argv, default_plan, probe
from harness.sandbox.probe import PREFERENCE

MIB = 1 << 20


@pytest.fixture
def as_other_uid(folder: Path) -> Launcher:
    """Root with an interpreter that another uid can reach."""
    return make_launcher("root, shared python", folder)


def test_uid_level(as_other_uid: Launcher) -> None:
    secret = as_other_uid.folder / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    report = as_other_uid("state", level=IsolationLevel.UID)
    state = report["value"]
    assert state["uid"] == report["uid"] != 0
    assert state["capabilities"] == [0, 0, 0, 0]
    assert (state["no_new_privs"], state["seccomp"]) == (1, 2)
    assert state["cwd"] == state["home"] == state["tmpdir"] == str(as_other_uid.folder / "scratch")
    paths = [str(secret), "/etc/shadow"]
    assert set(as_other_uid("read", *paths, level=IsolationLevel.UID)["value"].values()) == {"EACCES"}
    written = as_other_uid("write", "a", str(secret), "/etc/a", level=IsolationLevel.UID)["value"]
    assert list(written.values()) == ["ok", "EACCES", "EACCES"]


def test_uid_level_cannot_touch_processes(as_other_uid: Launcher) -> None:
    found = as_other_uid("forbidden", os.getpid(), level=IsolationLevel.UID)["value"]
    assert found["kill"] == found["ptrace a child"] == found["unshare user"] == "EPERM"
    assert found["memory of init"] == found["kernel settings"] == "EACCES"


@pytest.mark.parametrize("level", [IsolationLevel.UID, IsolationLevel.NONE])
@pytest.mark.parametrize("kill_after_s", [None, 0.4])
def test_nothing_survives_without_namespaces(folder: Path, level: IsolationLevel, kill_after_s: float | None) -> None:
    launch = make_launcher("root, shared python" if level is IsolationLevel.UID else "nobody", folder)
    for task, arguments in (("fork_bomb", [kill_after_s is not None]), ("orphan_in_new_session", [])):
        report = launch(task, *arguments, level=level, options={"processes": 100}, kill_after_s=kill_after_s)
        assert (report["left"], report["survivors"]) == (0, 0)
        assert report["seconds"] < 10


def test_level_none(launch: Launcher) -> None:
    state = launch("state", level=IsolationLevel.NONE)["value"]
    assert state["no_new_privs"] == 1
    assert len(state["descriptors"]) == 5
    assert launch("die_by", signal.SIGSEGV, level=IsolationLevel.NONE)["exit"] == -signal.SIGSEGV
    assert launch("leave", 7, level=IsolationLevel.NONE)["exit"] == 7


def test_control_group_bounds_memory(folder: Path) -> None:
    try:
        Cgroup.create(f"harness-test-try-{os.getpid()}", memory_bytes=64 * MIB, processes=64).remove()
    except SandboxError as error:
        pytest.skip(str(error))
    launch = make_launcher("self", folder)
    report = launch("hog", 8 * MIB, cgroup_bytes=100 * MIB)
    assert report["exit"] == -signal.SIGKILL
    assert report["cgroup_oom"] is True
    assert report["survivors"] == 0


def test_bubblewrap(launch: Launcher) -> None:
    code = f"""
import json, os, subprocess, sys
from pathlib import Path
from harness.evaluation.record import IsolationLevel
from harness.sandbox import bwrap_argv, default_plan
plan = default_plan(IsolationLevel.BUBBLEWRAP, scratch=Path({str(launch.make_folder("scratch"))!r}), cuda=False,
                    scratch_bytes=1 << 20)
inner = '''
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(os.getcwd(), os.uname().nodename, int(status["Seccomp"]), int(status["CapEff"], 16), os.path.exists("/home"),
      os.path.exists({str(launch.folder)!r}))
try:
    open("/tmp/a", "wb").write(bytes(2 << 20))
except OSError as error:
    print(error.strerror)
os._exit(9)
'''
print(subprocess.run(bwrap_argv(plan, [sys.executable, "-uc", inner])).returncode)
"""
    reason = probe().reasons[IsolationLevel.BUBBLEWRAP]
    if reason:
        pytest.skip(reason)
    run = subprocess.run([*launch.python, "-uc", code], capture_output=True, text=True, env=launch.environment, cwd="/")
    expected = ["/tmp sandbox 2 0 False False", "No space left on device", "9"]
    assert run.stdout.splitlines() == expected, run.stderr


def test_bubblewrap_needs_its_level(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="bubblewrap"):
        bwrap_argv(SandboxPlan(IsolationLevel.NONE, scratch=str(tmp_path)), ["/bin/true"])


def test_missing_path_is_refused_before_anything_runs(launch: Launcher) -> None:
    missing = str(launch.folder / "missing")
    report = launch("state", options={"readable": [missing]}, may_fail=True)
    assert "doesn't exist" in report["sandbox_error"]
    assert missing in report["step"]
    assert report["exit"] == 71


def test_uid_level_needs_root(folder: Path) -> None:
    launch = make_launcher("nobody", folder)
    report = launch("state", level=IsolationLevel.UID, may_fail=True)
    assert "root" in report["sandbox_error"]


def test_plan_travels_as_json(tmp_path: Path) -> None:
    import json

    plan = default_plan(
        IsolationLevel.NAMESPACES,
        scratch=tmp_path,
        cuda=True,
        writable=[tmp_path],
        binds=[Bind("/usr/share", "/data")],
        memory_bytes=1 << 30,
    )
    assert SandboxPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_probe() -> None:
    ability = probe()
    assert set(ability.reasons) == set(PREFERENCE) == set(ability.notes)
    assert ability.reasons[IsolationLevel.NONE] == ""
    assert best_level() is ability.levels[0]
    assert ability.levels[-1] is IsolationLevel.NONE


def test_import_is_light() -> None:
    heavy = ("torch", "numpy", "rich", "yaml", "sqlalchemy", "psutil")
    code = f"import sys, harness.sandbox; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
