"""What must hold after every fault. Each function gives the problems as sentences, none when all is well."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
from stores import on_server, store_path
from trials import END_TIMEOUT_S, RUN_GOES_ON, Trial

from harness.evaluation.record import Status
from harness.store import open_reader

LEFT_TIMEOUT_S = 10.0


def problems_of(trial: Trial, strict: bool) -> list[str]:
    """What does not hold of one trial's record."""
    run, found = trial.run, []
    if trial.status is None:
        found.append(f"it did not end within {END_TIMEOUT_S:.0f} s")
        run.process.kill()
    if any("Traceback" in line or "internal error" in line for line in run.lines):
        found.append("it ended by an error of ours: " + " / ".join(run.lines[-4:]))
    with open_reader() as reader:
        submission = reader.latest_submission(run.user)
        evaluations = [] if submission is None else reader.evaluations(submission.id)
        counted = (
            {} if submission is None else {entry.evaluation_id for entry in reader.entries(submission.leaderboard)}
        )
    if run.announced and not evaluations:
        return [*found, "cases were announced and no evaluation is recorded"]
    for evaluation in evaluations:
        recorded = {(case.kind.value, case.index): case.status.value for case in evaluation.cases}
        lost = {case: status for case, status in run.announced.items() if recorded.get(case) != status}
        if lost:
            found.append(f"announced and not recorded so: {lost}")
        status, planned = evaluation.outcome.status, evaluation.header.cases_planned
        if status is Status.RUNNING:
            found.append("it is shown as running")
        if status is Status.PASSED and list(recorded.values()) != ["passed"] * planned:
            found.append(f"it is shown as passed with {recorded} of {planned} cases")
        if (evaluation.score is not None or evaluation.id in counted) and status is not Status.PASSED:
            found.append(f"it counts, and its status is {status}")
        if strict and trial.fault in RUN_GOES_ON and (len(recorded) < planned or status is Status.INTERRUPTED):
            found.append(f"it should have gone on: {status}, {len(recorded)} of {planned} cases; {run.lines[-3:]}")
    return found


def left_processes() -> list[str]:
    """What still lives of all that was started here, after a moment of grace. This process is everybody's reaper."""
    deadline = time.monotonic() + LEFT_TIMEOUT_S
    while True:
        living = []
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess, ChildProcessError):
                if each.status() != psutil.STATUS_ZOMBIE:
                    living.append(f"{each.pid} {each.cmdline()[:4]}")
                elif each.ppid() == os.getpid():
                    os.waitpid(each.pid, os.WNOHANG)
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.05)


def shared_segments() -> set[str]:
    with suppress(OSError):
        return set(os.listdir("/dev/shm"))
    return set()


def integrity() -> list[str]:
    """SQLite's own checks; a server looks after its files itself, and enforces foreign keys."""
    if on_server():
        return []
    connection = sqlite3.connect(store_path())
    (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
    broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    connection.close()
    return ([] if answer == "ok" else [f"integrity: {answer}"]) + [f"foreign keys: {each}" for each in broken]


def scratch_left() -> list[str]:
    return sorted(path.name for path in Path(tempfile.gettempdir()).glob("harness-*"))


def end_of(trial: Trial) -> str:
    with open_reader() as reader:
        submission = reader.latest_submission(trial.run.user)
        evaluations = [] if submission is None else reader.evaluations(submission.id)
    if submission is None:
        return "nothing recorded yet"
    return evaluations[-1].outcome.status.value if evaluations else "not begun"
