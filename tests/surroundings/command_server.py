"""Runs `harness` many times without starting an interpreter for each: every request is a fork of this process, which
has the commands imported, and with `--evaluating` torch and what runs an evaluation. Requests and answers are lines of
JSON; bytes travel as Latin-1."""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import select
import signal
import sys
import tempfile
from typing import Any

KILLED = -9
IMPORTED = ("rich.syntax", "rich.table", "harness.cli.report", "harness.store.writing", "harness.techniques")
"""What the commands import when they are called."""
EVALUATING = ("torch", "harness.evaluation.evaluate", "harness.comparing.paired", "harness.boards.lint")


def serve() -> None:
    from harness.cli import main

    for module, _ in main.COMMANDS.values():
        importlib.import_module(module)
    for name in (*IMPORTED, *(EVALUATING if "--evaluating" in sys.argv else ())):
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            try:
                become(request, out.fileno(), err.fileno())
                os._exit(call(request))
            finally:
                os._exit(99)
        over = os.pidfd_open(child)
        ended, _, _ = select.select([over], [], [], request["timeout_s"])
        os.close(over)
        if not ended:
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status) if ended else KILLED
        return {"status": code, "out": content(out), "err": content(err)}


def content(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("latin-1"))


def become(request: dict[str, Any], out: int, err: int) -> None:
    """Take on the surroundings of a request."""
    os.setsid()
    os.environ.clear()
    for name, value in request["environment"].items():
        os.environb[name.encode()] = value.encode("latin-1")
    tempfile.tempdir = None
    os.chdir(request["folder"])
    if request["folder_gone"]:
        os.rmdir(request["folder"])
    for fd, name, ours in ((0, "stdin", None), (1, "stdout", out), (2, "stderr", err)):
        where = request[name]
        if where == "closed":
            os.close(fd)
        elif where == "no reader":
            reading, writing = os.pipe()
            os.close(reading)
            os.dup2(writing, fd)
        elif where:
            os.dup2(os.open(where, os.O_RDWR), fd)
        elif ours is not None:
            os.dup2(ours, fd)
        else:
            os.dup2(os.open(os.devnull, os.O_RDONLY), fd)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = None
        if request[name] != "closed":
            stream = io.TextIOWrapper(open(fd, "wb", closefd=False), encoding=request["encoding"])  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if request["powerless"]:
        drop_capabilities()


def drop_capabilities() -> None:
    """Root heeds the modes of files from here on. Another user might not be able to read the interpreter."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    assert ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) == 0


def call(request: dict[str, Any]) -> int:
    """What the console script does with these arguments; a traceback goes to standard error, as there."""
    from harness.cli.main import main

    arguments = [os.fsdecode(argument.encode("latin-1")) for argument in request["arguments"]]
    try:
        main(arguments)
    except SystemExit as stopped:
        return int(stopped.code or 0)
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
        return 1
    return 0


if __name__ == "__main__":
    serve()
