"""The real command on real files, each test with a store of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "surroundings"))

from calling import CommandServer  # noqa: E402

KILLED = -9


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def evaluation(self) -> Any:
        return self.document["evaluation"]


class Command:
    """`harness …` as a process, in a folder and with a store of the test's own: a fork of one that has torch imported,
    or with `fresh` or by `start` an interpreter of its own."""

    def __init__(self, folder: Path, server: CommandServer) -> None:
        self.folder, self._server = folder, server
        self.environment = {
            **os.environ,
            "HARNESS_HOME": str(folder / "home"),
            "HARNESS_USER": "ada",
            "HARNESS_LEADERBOARDS": str(REPOSITORY / "leaderboards"),
            "OMP_NUM_THREADS": "1",
        }

    def argv(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "harness.cli.main", *map(str, arguments)]

    def __call__(self, *arguments: str | Path, timeout_s: float = 120, fresh: bool = False) -> Answer:
        if fresh:
            done = subprocess.run(
                self.argv(*arguments),
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=timeout_s,
            )
            answer = Answer(done.returncode, done.stdout, done.stderr)
        else:
            environment = {**dict.fromkeys(os.environ), "CUDA_VISIBLE_DEVICES": None, **self.environment}
            told = self._server.call(
                *map(str, arguments), folder=self.folder, environment=environment, timeout_s=timeout_s
            )
            assert told.status != KILLED, f"no end after {timeout_s} s"
            answer = Answer(told.status, told.out.decode(), told.err.decode())
        assert "Traceback (most recent call last)" not in answer.err, answer.err
        return answer

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell's background job has the interrupt ignored, and so would this process.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


@pytest.fixture(scope="session")
def server() -> Iterator[CommandServer]:
    running = CommandServer(evaluating=True)
    yield running
    running.close()


@pytest.fixture
def command(tmp_path: Path, server: CommandServer) -> Command:
    return Command(tmp_path, server)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """`write(body, board)` makes a submission file."""

    def write_file(body: str, board: str = "vectoradd", name: str = "kernel.py") -> Path:
        path = tmp_path / name
        path.write_text(f"#!POPCORN leaderboard {board}\n" + textwrap.dedent(body))
        return path

    return write_file
