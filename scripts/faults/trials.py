"""One run of `harness submit`, and the fault that it meets. The checks afterwards are in `checks.py`."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import psutil
from stores import cut_connections, locked, read_only, store_files

HERE = Path(__file__).resolve().parent
FORK_SERVER = "harness.worker.forkserver"
ANNOUNCED = re.compile(r"^ +(test|benchmark) (\d+) \(.*?\) (passed|failed|rejected|error|timeout)")
END_TIMEOUT_S = 90.0


class Fault(StrEnum):
    """What is done to a run."""

    WORKER = "worker killed"
    SUPERVISOR = "supervisor killed"
    SUPERVISOR_ASKED = "supervisor told to end (TERM, INT, HUP)"
    BOTH = "supervisor and worker killed"
    FORK_SERVER = "fork server killed"
    WHILE_WRITING = "supervisor killed as the store's files change"
    LOCKED = "store locked by another process for up to 2 s"
    LOCKED_AND_KILLED = "supervisor killed while the store is locked"
    FULL = "no more can be written by the supervisor"
    READ_ONLY = "store made read-only for up to 3 s"
    CUT = "connections to the database cut for up to 1.5 s"


OF_SQLITE = (Fault.WHILE_WRITING, Fault.FULL, Fault.READ_ONLY)
OF_SERVER = (Fault.CUT,)
STRIKES_ALL = (Fault.READ_ONLY, Fault.CUT)
"""Faults that every run of the round meets."""


RUN_GOES_ON = (Fault.WORKER, Fault.LOCKED)
"""After these the run must come to its own end with every case recorded."""


class Run:
    """One `harness submit` as a process, with what it announced."""

    def __init__(self, number: int) -> None:
        self.user = f"trial-{number}"
        self.lines: list[str] = []
        command = [sys.executable, "-m", "harness.cli.main", "submit", str(HERE / "kernel.py"), "--user", self.user]
        self.process = subprocess.Popen(
            [*command, "--leaderboard", str(HERE / "board")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    @property
    def announced(self) -> dict[tuple[str, int], str]:
        found = (ANNOUNCED.match(line) for line in self.lines)
        return {(each[1], int(each[2])): each[3] for each in found if each}

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def finish(self) -> int | None:
        """The exit status; None when it does not end."""
        try:
            status = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(5)
        return status

    def below(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def fork_server(self) -> psutil.Process | None:
        for each in self.below():
            with suppress(psutil.NoSuchProcess):
                if each.ppid() == self.process.pid and FORK_SERVER in each.cmdline():
                    return each
        return None

    def workers(self) -> list[psutil.Process]:
        """Workers with their guards and inits: all that the fork server forked."""
        server = self.fork_server()
        if server is None:
            return []
        living = []
        with suppress(psutil.NoSuchProcess):
            for each in server.children(recursive=True):
                if each.status() != psutil.STATUS_ZOMBIE:
                    living.append(each)
        return living


class Trial:
    """A run and the one fault that it meets, at a moment of its life that chance chooses."""

    def __init__(self, number: int, fault: Fault, choice: random.Random, usual_s: float) -> None:
        self.fault, self.choice, self.run = fault, choice, Run(number)
        self.struck = False
        self.status: int | None = None
        by_time = choice.random() < 0.4
        after_s = choice.uniform(0, 1.1 * usual_s) if by_time else choice.uniform(0, 1.0)
        after_lines = 0 if by_time else choice.randint(1, 8)
        self._thread = threading.Thread(target=self._follow, args=(after_s, after_lines), daemon=True)
        self._thread.start()

    def _follow(self, after_s: float, after_lines: int) -> None:
        while self.run.alive and len(self.run.lines) < after_lines:
            time.sleep(0.01)
        self._sleep(after_s)
        while self.run.alive and not self.struck:
            with suppress(sqlite3.OperationalError):  # another run's fault keeps the store from being opened just now
                self.struck = self._strike()
            time.sleep(0.03)
        self.status = self.run.finish()

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.run.alive and time.monotonic() < until:
            time.sleep(0.01)

    def _strike(self) -> bool:
        """Try; False while there is nothing to strike at yet."""
        pid = self.run.process.pid
        match self.fault:
            case Fault.WORKER:
                workers = self.run.workers()
                return bool(workers) and kill(self.choice.choice(workers).pid)
            case Fault.SUPERVISOR:
                return kill(pid)
            case Fault.SUPERVISOR_ASKED:
                return kill(pid, self.choice.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
            case Fault.BOTH:
                workers = self.run.workers()
                return bool(workers) and kill(pid) and kill(self.choice.choice(workers).pid)
            case Fault.FORK_SERVER:
                server = self.run.fork_server()
                return server is not None and kill(server.pid)
            case Fault.WHILE_WRITING:
                before = store_files()
                while self.run.alive and store_files() == before:
                    time.sleep(0.0005)
                return self.run.alive and kill(pid)
            case Fault.LOCKED:
                with locked():
                    self._sleep(self.choice.uniform(0.2, 2))
                return True
            case Fault.LOCKED_AND_KILLED:
                with locked():
                    self._sleep(self.choice.uniform(0, 1))
                    return kill(pid)
            case Fault.FULL:
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
                    return True
            case Fault.READ_ONLY:
                with read_only():
                    self._sleep(self.choice.uniform(0.5, 3))
                return True
            case Fault.CUT:
                until = time.monotonic() + self.choice.uniform(0.3, 1.5)
                cut_connections(lambda: time.monotonic() > until or not self.run.alive)
                return True
        return False

    def join(self) -> None:
        self._thread.join()


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
