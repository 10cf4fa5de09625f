"""A clean process that has imported torch, and forks a worker whenever the supervisor asks for one.

It never opens a CUDA context and never sees a submission, an input or a seed, so a child starts in milliseconds and
inherits nothing worth knowing. Run as `python -m harness.worker.forkserver FD`, with the control channel on FD.

`{"op": "spawn", "env", "cwd", "sandbox"}` + descriptors (worker's channel, log)  ->  `{"pid"}`
`{"op": "wait", "pid", "timeout_s"}`                                             ->  `{"status"}`, null while it runs
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable

import torch  # noqa: F401  (imported here, once, for every worker)

import harness.worker.main as worker
from harness.sandbox import SandboxPlan, become_subreaper, enter
from harness.sandbox.guard import die_with_parent
from harness.wire.channel import Channel, ChannelClosed, Message
from harness.worker import START_FAILED


def serve(channel: Channel, run: Callable[[socket.socket], None]) -> None:
    """Answer until the supervisor is gone. `run` is what a forked worker does, on its channel's socket."""
    statuses: dict[int, int] = {}
    while True:
        try:
            request, fds = channel.receive_with_fds()
        except ChannelClosed:
            return
        if request["op"] == "spawn":
            answer: Message = {"pid": _spawn(request, fds, channel, run)}
            for fd in fds:
                os.close(fd)
        else:
            answer = {"status": _wait(request["pid"], request["timeout_s"], statuses)}
        channel.send(answer)


def _spawn(request: Message, fds: list[int], control: Channel, run: Callable[[socket.socket], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        control.close()
        channel_fd, log_fd = fds
        _redirect(log_fd)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        enter(SandboxPlan.from_dict(request["sandbox"]), keep_fds=[channel_fd])
        run(socket.socket(fileno=channel_fd))
    except BaseException as error:
        os.write(2, f"the worker could not start: {type(error).__name__}: {error}\n".encode())
    os._exit(START_FAILED)


def _redirect(log_fd: int) -> None:
    """Standard output and error into the log, standard input from nowhere."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, target)
    # New objects: those of this process may hold a buffer that is not the child's to write.
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _wait(pid: int, timeout_s: float, statuses: dict[int, int]) -> int | None:
    """The wait status of a child, as os.waitstatus_to_exitcode gives it: negative for a signal."""
    deadline = time.monotonic() + timeout_s
    while pid not in statuses:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended:
            statuses[ended] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(0.002)
    return statuses[pid]


def main(run: Callable[[socket.socket], None] = worker.run_worker) -> None:
    die_with_parent()
    become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the user's interrupt is the supervisor's to handle
    # What is imported here lives as long as every worker. A collection in one would otherwise walk all of it, 0.1 s in
    # a timed call, and copy its pages.
    gc.freeze()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    channel.send({"ready": True})
    serve(channel, run)


if __name__ == "__main__":
    main()
