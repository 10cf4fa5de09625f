"""The supervisor's handle on a worker process: start, ask with a deadline, notice its end, kill its whole tree.

Everything a worker says is bounded and checked here; what goes wrong is raised as a `WorkerFault`, which already is a
case's verdict.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import MachineError
from harness.evaluation.record import Reason, ReasonCode, Status
from harness.sandbox import (
    FolderWatcher,
    FreezeError,
    Freezer,
    MemoryWatcher,
    RanWhileFrozenError,
    SandboxPlan,
    bwrap_argv,
    kill_tree,
)
from harness.trees import remove_tree
from harness.wire.channel import Channel, ChannelClosed, ChannelError, ChannelTimeout, Message, channel_pair
from harness.worker import START_FAILED

LOG_LIMIT_BYTES = 64 << 20
START_TIMEOUT_S = 120.0

# What a worker may say of its own failure, and what that makes of the case.
FAULT_STATUS: dict[ReasonCode, Status] = {
    ReasonCode.EXCEPTION: Status.FAILED,
    ReasonCode.CONTRACT: Status.FAILED,
    ReasonCode.NO_ENTRY: Status.FAILED,
    ReasonCode.IMPORT_FAILED: Status.FAILED,
    ReasonCode.OUT_OF_MEMORY: Status.ERROR,
    ReasonCode.CUDA_ERROR: Status.ERROR,
}
ENDS_WORKER = (ReasonCode.OUT_OF_MEMORY, ReasonCode.CUDA_ERROR, ReasonCode.CRASH, ReasonCode.TIMEOUT)


class WorkerFault(Exception):
    """What a worker did wrong, as a verdict. `fatal` when the worker must not be used any more."""

    def __init__(self, status: Status, reason: Reason, traceback: str = "", *, fatal: bool = True) -> None:
        super().__init__(reason.message)
        self.status, self.reason, self.traceback, self.fatal = status, reason, traceback, fatal


def fault_of(answer: Any) -> WorkerFault:
    """The verdict for an `error` answer. The worker names a kind from a fixed list; its texts are only shown."""
    answer = answer if isinstance(answer, dict) else {}
    try:
        code = ReasonCode(answer.get("kind"))
    except ValueError:
        code = ReasonCode.CHANNEL
    if code not in FAULT_STATUS:
        text = f"the worker answered with a failure of unknown kind {answer.get('kind')!r}"
        return WorkerFault(Status.ERROR, Reason(ReasonCode.CHANNEL, text))
    reason = Reason(code, str(answer.get("message", ""))[:2000])
    return WorkerFault(FAULT_STATUS[code], reason, str(answer.get("traceback", "")), fatal=code in ENDS_WORKER)


class ForkServer:
    """A warm process that forks workers; see `harness.worker.forkserver`. Start it from a thread that outlives it.

    `module` is the program: the fork server of evaluations, or one that forks workers of another kind.
    """

    def __init__(self, environment: Mapping[str, str], module: str = "harness.worker.forkserver") -> None:
        self._channel, theirs = channel_pair()
        self._turn = threading.Lock()  # the channel is one conversation, whoever asks
        command = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        self._ready = False

    def wait_ready(self) -> None:
        """Raises MachineError with its own words when it does not come up."""
        if self._ready:
            return
        try:
            self._channel.receive(START_TIMEOUT_S)
            self._ready = True
        except (ChannelError, ChannelTimeout) as error:
            self._process.kill()
            _, stderr = self._process.communicate()
            last = stderr.decode(errors="replace").strip().splitlines()[-1:] or [str(error)]
            raise MachineError(
                f"the worker process does not start: {last[0]}", hint="harness doctor says more."
            ) from None

    def spawn(self, folder: Path, environment: Mapping[str, str], log: Path, sandbox: SandboxPlan) -> WorkerProcess:
        """Fork a worker whose working folder is `folder` and whose output goes to `log`. Raises MachineError."""
        with self._turn:
            self.wait_ready()
        ours, theirs = channel_pair()
        log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        request = {
            "op": "spawn",
            "env": dict(environment),
            "cwd": str(folder),
            "sandbox": sandbox.to_dict(),
        }
        try:
            pid: int = self._ask(request, [theirs.fileno(), log_fd], START_TIMEOUT_S)["pid"]
        finally:
            theirs.close()
            os.close(log_fd)
        return WorkerProcess(pid, ours, log, sandbox, lambda timeout_s: self.exit_status(pid, timeout_s))

    def exit_status(self, pid: int, timeout_s: float) -> int | None:
        """The exit code of a worker, negative for a signal; None while it runs. Raises MachineError as `spawn` does."""
        request = {"op": "wait", "pid": pid, "timeout_s": timeout_s}
        status: int | None = self._ask(request, (), timeout_s + 30)["status"]
        return status

    def _ask(self, request: Message, fds: Sequence[int], timeout_s: float) -> Message:
        try:
            with self._turn:
                self._channel.send(request, fds)
                return self._channel.receive(timeout_s)
        except (ChannelError, ChannelTimeout) as error:
            raise MachineError(
                f"the process that starts workers is gone: {error}",
                hint="Was it killed, or is the machine out of memory? What was finished is kept; run it again.",
            ) from None

    def close(self) -> None:
        self._channel.close()
        kill_tree(self._process.pid)
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


def start_under_bubblewrap(environment: Mapping[str, str], log: Path, sandbox: SandboxPlan) -> WorkerProcess:
    """A worker that starts cold under `bwrap`, where this process may not make namespaces of its own."""
    ours, theirs = channel_pair()
    with open(log, "ab") as output:
        process = subprocess.Popen(
            bwrap_argv(sandbox, [sys.executable, "-P", "-m", "harness.worker.cold", str(theirs.fileno())]),
            env=dict(environment),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    theirs.close()

    def exit_status(timeout_s: float) -> int | None:
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    return WorkerProcess(process.pid, ours, log, sandbox, exit_status)


class WorkerProcess:
    """One worker. `ask` sends a request and returns the answer, or raises WorkerFault."""

    def __init__(
        self,
        pid: int,
        channel: Channel,
        log: Path,
        sandbox: SandboxPlan,
        exit_status: Callable[[float], int | None],
    ) -> None:
        self.pid, self.channel, self.log = pid, channel, log
        self.alive = True
        self._exit_status = exit_status
        self._uid = sandbox.uid
        limit = sandbox.memory_bytes
        self._memory = None if limit is None else MemoryWatcher(pid, limit, uid=sandbox.uid)
        self._folders = tuple(map(Path, sandbox.writable_folders))
        limit = sandbox.disk_bytes
        self._disk = None if limit is None else FolderWatcher(pid, self._folders, limit, uid=sandbox.uid)
        self._freezer = Freezer(pid)

    def ask(self, message: Message, fds: Sequence[int] = (), *, timeout_s: float) -> Message:
        self.send(message, fds)
        return self.answer(timeout_s)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a request, for which a frozen worker is let go. Raises WorkerFault, also where it was not at rest."""
        if self._freezer.frozen:
            self.freeze()
        self._watch_disk()  # what the last request left: its answer may have come at once
        self._freezer.thaw()
        try:
            self.channel.send(message, fds)
        except (ChannelClosed, ChannelTimeout) as error:
            raise self.ended(error) from None

    def answer(self, timeout_s: float) -> Message:
        """The next answer. Every way in which it can fail to come, or be a failure, is a WorkerFault."""
        try:
            answer = self.channel.receive(timeout_s, tick=self.watch)
        except ChannelClosed as error:
            raise self.ended(error) from None
        except ChannelTimeout:
            raise self.timed_out(timeout_s) from None
        except ChannelError as error:
            self.kill()
            raise WorkerFault(
                Status.ERROR, Reason(ReasonCode.CHANNEL, f"the worker broke the channel: {error}")
            ) from None
        if "error" in answer:
            raise fault_of(answer["error"])
        return answer

    def watch(self) -> None:
        """Raise when the worker is over a limit. Called while waiting for it."""
        if self.log_bytes() > LOG_LIMIT_BYTES:
            self.kill()
            text = f"it wrote more than {LOG_LIMIT_BYTES >> 20} MiB of output and was stopped"
            raise WorkerFault(Status.ERROR, Reason(ReasonCode.OUTPUT_LIMIT, text))
        excess = self._memory.check() if self._memory is not None else None
        if excess is not None:
            self.kill()
            raise WorkerFault(Status.ERROR, Reason(ReasonCode.OUT_OF_MEMORY, f"it {excess}, and was stopped"))
        self._watch_disk()

    def _watch_disk(self) -> None:
        excess = self._disk.check() if self._disk is not None else None
        if excess is not None:
            self.kill()
            for folder in self._folders:  # now: the disk may be full, and the store lie on it
                remove_tree(folder)
            raise WorkerFault(Status.ERROR, Reason(ReasonCode.OUTPUT_LIMIT, f"it {excess} and was stopped"))

    def stop(self) -> None:
        """Signal everything of the worker to stop, without waiting for it; `freeze` waits."""
        self._freezer.stop()

    def freeze(self) -> bool:
        """Stop everything of the worker until `thaw` or the next `send`, or check that it stayed stopped; whether
        `stop` had reached all of it before."""
        try:
            if not self._freezer.frozen:
                return self._freezer.freeze()
            self._freezer.check()
            return True
        except FreezeError as error:
            self.kill()
            status = Status.REJECTED if isinstance(error, RanWhileFrozenError) else Status.ERROR
            raise WorkerFault(status, Reason(ReasonCode.CHANNEL, str(error))) from None

    def thaw(self) -> None:
        """Let it go on."""
        self._freezer.thaw()

    def log_bytes(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def log_tail(self) -> str:
        """The last line of the log."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1][:500] if lines else ""

    def timed_out(self, timeout_s: float) -> WorkerFault:
        self.kill()
        return WorkerFault(Status.TIMEOUT, Reason(ReasonCode.TIMEOUT, f"no answer within {timeout_s:.3g} s"))

    def ended(self, error: Exception) -> WorkerFault:
        """The verdict for a channel that closed: the process's own end, as far as it can be known."""
        self.watch()
        status = self._exit_status(2.0)
        self.kill()
        if status is None:
            text = "the worker closed its channel while it ran on, and was stopped"
        elif status == START_FAILED and (said := self.log_tail()):
            raise MachineError(
                f"the worker could not be put into its sandbox: {said}", hint="harness doctor says more."
            )
        elif status < 0:
            text = f"the worker was killed by {signal_name(-status)}"
        else:
            text = f"the worker left by itself with exit code {status} before it answered"
        return WorkerFault(Status.ERROR, Reason(ReasonCode.CRASH, text))

    def kill(self) -> None:
        """End the worker and every descendant. Safe to call again."""
        if self.alive:
            self.alive = False
            self.channel.close()
            kill_tree(self.pid, uid=self._uid)
            with suppress(MachineError):  # whoever starts the next worker meets it again
                self._exit_status(5.0)


def signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def open_clock(worker: WorkerProcess, timeout_s: float = 60.0) -> socket.socket:
    """Make a CPU worker ready; returns the supervisor's end of its clock."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    worker.ask({"op": "open", "device": "cpu"}, [theirs.fileno()], timeout_s=timeout_s)
    theirs.close()
    return ours
