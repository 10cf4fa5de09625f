"""Calls of the real `harness`, with surroundings of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
NOBODY = 65534


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    status: int
    out: bytes
    err: bytes

    @property
    def words(self) -> str:
        return self.err.decode("utf-8", "backslashreplace")


class CommandServer:
    """Calls `harness`. Text is passed on byte by byte, as UTF-8; a lone surrogate is the byte that it stands for."""

    def __init__(self, *, evaluating: bool = False) -> None:
        """With `evaluating`, for calls that would each import torch."""
        command = [sys.executable, str(HERE / "command_server.py"), *(["--evaluating"] if evaluating else [])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def close(self) -> None:
        self._process.communicate()

    def call(
        self,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str | None] | None = None,
        stdin: str = "",
        stdout: str = "",
        stderr: str = "",
        encoding: str = "utf-8",
        folder_gone: bool = False,
        powerless: bool = False,
        timeout_s: float = 60,
    ) -> Answer:
        """`environment` is added to this process's; None takes a variable away. A stream is `closed`, has `no reader`,
        or is the file of that name. A `powerless` one heeds the modes of files, whoever it is."""
        variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **(environment or {})}
        request = {
            "arguments": [_bytes(argument) for argument in arguments],
            "environment": {name: _bytes(value) for name, value in variables.items() if value is not None},
            "folder": str(folder),
            "folder_gone": folder_gone,
            "stdin": stdin,
            "stdout": stdout,
            "stderr": stderr,
            "encoding": encoding,
            "powerless": powerless,
            "timeout_s": timeout_s,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Answer(told["status"], told["out"].encode("latin-1"), told["err"].encode("latin-1"))


def _bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


Harness = Callable[..., Answer]
