"""Where a compilation happens: the fork server, a folder and a sandbox for every worker, as an evaluation has them."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.errors import MachineError
from harness.evaluation.host import CACHE_VARIABLES, server_environment
from harness.evaluation.record import IsolationLevel
from harness.evaluation.workers import ForkServer, WorkerFault, WorkerProcess
from harness.sandbox import default_plan
from harness.scratch import PASSABLE, Scratch
from harness.wire.channel import Message

MODULE = "harness.compiling.worker.server"
PRELOAD = "HARNESS_COMPILE_PRELOAD"
"""Tells the fork server which packages its workers will import."""
NEWS = frozenset({"case", "compiling", "nvcc"})
"""What a frame holds that comes before the answer (see `harness.compiling.worker.run`)."""
LOG = "log"
"""Where an answer holds the end of the worker's output."""
MOST_LOG_CHARS = 40_000
MOST_ARTEFACT_BYTES = 64 << 20


class Workplace:
    """Use as a context manager: leaving it ends every process and removes the folders."""

    def __init__(self, isolation: IsolationLevel, preload: Sequence[str] = ()) -> None:
        self._isolation, self._preload = isolation, tuple(preload)
        self._scratch = Scratch.make("harness-compile-", PASSABLE)
        self.root = self._scratch.path
        self._server: ForkServer | None = None
        self._lock = threading.Lock()
        self._count = 0

    def __enter__(self) -> Workplace:
        self._server = ForkServer({**server_environment(), PRELOAD: ",".join(self._preload)}, MODULE)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        self._scratch.remove()

    def fresh_folder(self, name: str) -> Path:
        with self._lock:
            self._count += 1
            return make_folder(self.root / f"{self._count:02d}-{name}")

    def run(
        self,
        name: str,
        request: Message,
        *,
        code: Path | None,
        readable: list[Path],
        out: Path,
        timeout_s: float,
        on_news: Callable[[Message], None] = lambda news: None,
    ) -> Message:
        """One worker doing one request; its answer. Without `code` it holds none of the submission and goes without a
        sandbox. Raises WorkerFault, MachineError for a fault of ours."""
        worker, log = self._start(name, code, readable, out)
        try:
            worker.send(request)
            while True:
                answer = worker.answer(timeout_s)
                if not NEWS.isdisjoint(answer):
                    on_news(answer)
                    continue
                if "fault" in answer:
                    raise MachineError(
                        f"the compile worker failed: {answer['fault']}", hint=answer.get("traceback", "")
                    )
                return {**answer, LOG: _tail(log, MOST_LOG_CHARS)}
        except WorkerFault as fault:
            fault.traceback = fault.traceback or _tail(log)
            raise
        finally:
            worker.kill()

    def _start(self, name: str, code: Path | None, readable: list[Path], out: Path) -> tuple[WorkerProcess, Path]:
        assert self._server is not None
        base = self.fresh_folder(name)
        home, cache = make_folder(base / "home"), make_folder(base / "cache")
        log = base / "log"
        log.touch(mode=0o600)
        isolation = self._isolation if code is not None else IsolationLevel.NONE
        shown = [*readable, *([code] if code is not None else [])]
        plan = default_plan(isolation, scratch=home, cuda=False, readable=shown, writable=[cache, out])
        environment = {**server_environment(), **_environment(cache)}
        return self._server.spawn(home, environment, log, plan), log


def make_folder(path: Path) -> Path:
    """A folder that a worker under another uid may read."""
    path.mkdir(mode=0o755)
    return path


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
