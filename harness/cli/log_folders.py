"""Where the logs of a run are kept, and for how long."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MachineError, RequestError

RUN_LOGS, RUN_LOGS_KEPT_S = "harness-logs-", 24 * 3600


@dataclass
class RunLogs:
    """The logs of a run that is recorded nowhere; `wanted` once there is something in them to read."""

    folder: Path
    wanted: bool = False


@contextmanager
def run_logs() -> Iterator[RunLogs]:
    """A fresh folder among the temporary files, which goes at the end unless its logs are wanted."""
    logs = RunLogs(log_folder(kept=False))
    try:
        yield logs
    finally:
        if not logs.wanted:
            shutil.rmtree(logs.folder, ignore_errors=True)


def log_folder(kept: bool) -> Path:
    """A fresh folder for a run's logs: beside the store for a submission, among the temporary files otherwise."""
    from harness.store.location import home

    if not kept:
        _forget_old_logs()
        return Path(tempfile.mkdtemp(prefix=RUN_LOGS))
    logs = home() / "logs"
    try:
        logs.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="", dir=logs))
    except (FileExistsError, NotADirectoryError) as error:
        raise RequestError(
            "it is not a folder", where=f"HARNESS_HOME={home()}", hint="Set HARNESS_HOME to a folder."
        ) from error
    except OSError as error:
        raise MachineError(
            f"it can't be written: {error.strerror}",
            where=f"HARNESS_HOME={home()}",
            hint="Make it writable, or set HARNESS_HOME to a folder of yours. `harness run` records nothing.",
        ) from error


def _forget_old_logs() -> None:
    """Remove this user's logs of runs that are a day old."""
    for folder in Path(tempfile.gettempdir()).glob(f"{RUN_LOGS}*"):
        with contextlib.suppress(OSError):
            state = folder.lstat()
            if state.st_uid == os.getuid() and time.time() - state.st_mtime > RUN_LOGS_KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)
