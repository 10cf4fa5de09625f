"""The other levels, control groups, refusals, and the probe."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_launch import HERE, NOBODY, Launcher, make_launcher

from harness.evaluation.record import IsolationLevel
from harness.sandbox import (
    Bind,
    Cgroup,
    FolderWatcher,
    SandboxError,
    SandboxPlan,
    best_level,
    bwrap_argv,
    clean_environment,
    default_plan,
    probe,
    seccomp,
)
from harness.sandbox.probe import PREFERENCE
from harness.sandbox.processes import descendants

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


def test_root_without_capabilities_uses_a_user_namespace(folder: Path) -> None:
    """As in a container: a helper maps the second uid, and the worker runs as that."""
    launch = make_launcher("root without CAP_SYS_ADMIN", folder)
    report = launch("state")
    assert report["value"]["uid"] == report["uid"] > 65536
    assert report["value"]["capabilities"] == [0, 0, 0, 0]
    found = launch("forbidden", os.getpid())["value"]
    assert found["setuid"] == "EPERM"
    assert found["kernel settings"] == "EROFS"
    assert launch("fork_bomb", False, options={"processes": 100})["survivors"] == 0


def test_where_the_uid_must_stay(launch: Launcher) -> None:
    state = launch("state", keep_uid=True)["value"]
    assert state["uid"] == (os.getuid() if launch.user == "self" else NOBODY)
    assert state["capabilities"] == [0, 0, 0, 0]
    written = launch("write", "/proc/sys/kernel/hostname", "/usr/a", "/a", "/proc/sysrq-trigger", keep_uid=True)
    assert set(written["value"].values()) <= {"EROFS", "EACCES", "ENOENT"}  # not every kernel has sysrq


def test_unreadable_interpreter_keeps_the_uid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid():
        pytest.skip("needs root")
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr("harness.sandbox.discover.interpreter_paths", lambda: [str(closed)])
    plan = default_plan(IsolationLevel.NAMESPACES, scratch=folder, cuda=False)
    assert plan.uid is None
    assert str(closed) in plan.notes[0]
    with pytest.raises(SandboxError, match="only root can reach"):
        default_plan(IsolationLevel.UID, scratch=folder, cuda=False)


def test_another_copy_of_this_package_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its boards, with their references, lie beside it or in it."""
    checkout, packages, plain = (tmp_path / name for name in ("checkout", "site-packages", "plain"))
    for folder in (checkout / "harness" / "sandbox", packages / "harness", plain / "mine"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{checkout}:{plain}")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])
    monkeypatch.setattr("sys.path", [*sys.path, str(packages)])
    plan = default_plan(IsolationLevel.NAMESPACES, scratch=tmp_path, cuda=False)
    assert {str(plain), str(packages)} <= set(plan.read_only)
    assert str(checkout) not in plan.read_only
    assert str(packages / "harness") in plan.hidden


def test_kernels_without_mount_setattr(launch: Launcher) -> None:
    found = launch("write", "/usr/a", "/tmp/a", "/proc/sys/kernel/hostname", no_mount_setattr=True)["value"]
    assert list(found.values()) == ["EROFS", "ok", "EROFS"]


@pytest.mark.parametrize("level", [IsolationLevel.NAMESPACES, IsolationLevel.NONE])
@pytest.mark.parametrize("victim", ["fork server", "guard"])
def test_killing_one_ends_the_worker(launch: Launcher, level: IsolationLevel, victim: str) -> None:
    token = f"token-{os.getpid()}-{launch.folder.name}"
    driver = subprocess.Popen(
        [*launch.python, str(HERE / "driver.py"), token],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=launch.environment,
        cwd="/",
        text=True,
    )
    assert driver.stdin is not None
    driver.stdin.write(launch.document("wait", 60, level=level, options={}))
    driver.stdin.close()
    chain = 4 if level is IsolationLevel.NAMESPACES else 3
    assert _eventually(lambda: len(_with_argument(token)) == chain)
    guard = next(process.pid for process in descendants(driver.pid) if process.parent == driver.pid)
    os.kill(driver.pid if victim == "fork server" else guard, signal.SIGKILL)
    assert _eventually(lambda: _with_argument(token) == [])
    driver.wait(10)


def _eventually(true: Callable[[], bool]) -> bool:
    for _ in range(300):
        if true():
            return True
        time.sleep(0.02)
    return False


def _with_argument(token: str) -> list[int]:
    """Processes started with an argument, or forked from one that was; the dead have none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if token.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def test_folder_watcher(tmp_path: Path) -> None:
    writer = subprocess.Popen(["/bin/sh", "-c", f"head -c 3000000 /dev/urandom > {tmp_path}/file; sleep 60"])
    with FolderWatcher(writer.pid, [tmp_path], 2 * MIB, interval_s=0.02) as watcher:
        assert writer.wait(20) == -signal.SIGKILL
    assert watcher.exceeded == "wrote more than 2 MiB of files"


def test_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    made = clean_environment({"TRITON_INTERPRET": "1"})
    assert "SOME_TOKEN" not in made
    assert (made["CUDA_VISIBLE_DEVICES"], made["TRITON_INTERPRET"]) == ("0", "1")


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")],
)
def test_system_call_numbers(column: int, header: str) -> None:
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip(f"no {path}")
    text = path.read_text()
    known = dict(re.findall(r"#define __NR3?2?6?4?_?(\w+)\s+(\d+)", text))
    compared = 0
    for name, numbers in seccomp.DENIED.items():
        if name in known:
            assert numbers[column] == int(known[name]), name
            compared += 1
    assert compared > 45


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
