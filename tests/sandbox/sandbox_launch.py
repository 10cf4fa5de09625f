"""Run a task of `inside` in a sandbox, as root and as a normal user."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.evaluation.record import IsolationLevel

HERE = Path(__file__).resolve().parent
NOBODY = 65534


@dataclass
class Launcher:
    """Runs the driver as one user; skips where that user can't have the level."""

    user: str
    python: list[str]
    environment: dict[str, str]
    folder: Path
    """World-readable, the user's own; gone after the test."""

    def __call__(
        self, task: str, *arguments: Any, level: IsolationLevel = IsolationLevel.NAMESPACES, **job: Any
    ) -> dict[str, Any]:
        options = job.pop("options", {})
        run = subprocess.run(
            [*self.python, str(HERE / "driver.py")],
            input=self.document(task, *arguments, level=level, options=options, **job),
            capture_output=True,
            text=True,
            env=self.environment,
            cwd="/",
            timeout=300,
        )
        assert run.returncode == 0, run.stderr
        report: dict[str, Any] = json.loads(run.stdout)
        if "sandbox_error" in report and not job.get("may_fail"):
            self._skip_if_impossible(level, report["sandbox_error"])
        if run.stderr:
            print(run.stderr)  # pytest shows it when the test fails
        return report

    def document(self, task: str, *arguments: Any, level: IsolationLevel, **job: Any) -> str:
        """A job for the driver."""
        scratch = self.folder / "scratch"
        if not scratch.exists():
            self.make_folder("scratch")
        return json.dumps({"task": task, "arguments": arguments, "level": level, "scratch": str(scratch), **job})

    def _skip_if_impossible(self, level: IsolationLevel, error: str) -> None:
        code = "from harness.sandbox import probe; import json; print(json.dumps(probe().reasons))"
        run = subprocess.run([*self.python, "-c", code], capture_output=True, text=True, env=self.environment, cwd="/")
        reason = json.loads(run.stdout)[level]
        if reason:
            pytest.skip(f"this machine gives no {level} to {self.user}: {reason}")
        pytest.fail(error)

    def make_folder(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir()
        if self.user == "nobody":
            os.chown(made, NOBODY, NOBODY)
        return made


def python_for_nobody() -> str | None:
    """An interpreter of this minor version that a user without rights can start."""
    for candidate in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        if not os.path.exists(candidate):
            continue
        real = Path(os.path.realpath(candidate))
        if all(os.stat(parent).st_mode & 0o001 for parent in real.parents):
            return candidate
    return None


def make_launcher(user: str, folder: Path) -> Launcher:
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": os.pathsep.join([*site.getsitepackages(), str(HERE.parents[1])]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HOME": str(folder),
    }
    if user == "self":
        return Launcher(user, [sys.executable], environment, folder)
    if os.getuid() != 0:
        pytest.skip(f"only root can run something as {user}")
    if user == "root without CAP_SYS_ADMIN":
        become = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"]
        return Launcher(user, [*become, sys.executable], environment, folder)
    python = python_for_nobody()
    if python is None:
        pytest.skip("no Python of this version that another user can start")
    if user == "root, shared python":
        return Launcher(user, [python], environment, folder)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    os.chown(folder, NOBODY, NOBODY)
    become = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    if subprocess.run([*become, python, "-c", "import harness"], env=environment, cwd="/").returncode:
        pytest.skip("another user can't read this checkout")
    return Launcher(user, [*become, python], environment, folder)
