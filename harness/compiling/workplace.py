"""Where a compilation happens: the fork server, a folder and a sandbox for every worker, as an evaluation has them."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from harness.errors import MachineError
from harness.evaluation.host import CACHE_VARIABLES, server_environment
from harness.evaluation.record import IsolationLevel
from harness.evaluation.workers import ForkServer, WorkerFault, WorkerProcess
from harness.sandbox import default_plan
from harness.wire.channel import Message

MODULE = "harness.compiling.worker.server"
MOST_ARTEFACT_BYTES = 64 << 20


class Workplace:
    """Use as a context manager: leaving it ends every process and removes the folders."""

    def __init__(self, isolation: IsolationLevel) -> None:
        self._isolation = isolation
        self.root = Path(tempfile.mkdtemp(prefix="harness-compile-"))
        self.root.chmod(0o711)  # a worker under another uid must be able to pass through
        self._server: ForkServer | None = None
        self._lock = threading.Lock()
        self._count = 0

    def __enter__(self) -> Workplace:
        self._server = ForkServer(server_environment(), MODULE)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def folder(self, name: str) -> Path:
        made = self.root / name
        made.mkdir(mode=0o755, parents=True)
        return made

    def run(
        self,
        name: str,
        request: Message,
        *,
        code: Path | None,
        readable: list[Path],
        out: Path,
        timeout_s: float,
        on_case: Callable[[int], None] = lambda index: None,
    ) -> Message:
        """One worker doing one request; its answer. Without `code` it holds none of the submission and goes without a
        sandbox. Raises WorkerFault, MachineError for a fault of ours."""
        worker, log = self._start(name, code, readable, out)
        try:
            worker.send(request)
            while True:
                answer = worker.answer(timeout_s)
                if "case" in answer:
                    on_case(answer["case"])
                    continue
                if "fault" in answer:
                    raise MachineError(f"the compile worker failed: {answer['fault']}", hint=answer.get("traceback", ""))
                return answer
        except WorkerFault as fault:
            fault.traceback = fault.traceback or _tail(log)
            raise
        finally:
            worker.kill()

    def _start(self, name: str, code: Path | None, readable: list[Path], out: Path) -> tuple[WorkerProcess, Path]:
        assert self._server is not None
        with self._lock:
            self._count += 1
            base = self.folder(f"{self._count:02d}-{name}")
            home, cache = base / "home", base / "cache"
            for made in (home, cache):
                made.mkdir(mode=0o755)
            log = base / "log"
            log.touch(mode=0o600)
            isolation = self._isolation if code is not None else IsolationLevel.NONE
            shown = [*readable, *([code] if code is not None else [])]
            plan = default_plan(isolation, scratch=home, cuda=False, readable=shown, writable=[cache, out])
            environment = {**server_environment(), **_environment(cache)}
            return self._server.spawn(home, environment, log, plan), log


def _environment(cache: Path) -> dict[str, str]:
    environment = {name: str(cache / sub) for name, sub in CACHE_VARIABLES.items()}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    environment["VIRTUAL_ENV"] = sysconfig.get_path("data")
    environment["CUDA_VISIBLE_DEVICES"] = ""  # no real device, also where the sandbox hides none
    environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


def _tail(log: Path, most: int = 4000) -> str:
    try:
        return log.read_text(errors="replace")[-most:]
    except OSError:
        return ""


def read_artefact(folder: Path, name: str) -> bytes:
    """A file that a worker left. It may be anything: only a plain file of bounded size directly in `folder` is read.

    Raises OSError.
    """
    if "/" in name or name in ("", ".", ".."):
        raise OSError(f"not a file's name: {name!r}")
    fd = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_ARTEFACT_BYTES:
            raise OSError(f"{name} is no plain file of at most {MOST_ARTEFACT_BYTES >> 20} MiB")
        return file.read(MOST_ARTEFACT_BYTES)
