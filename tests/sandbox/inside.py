"""What the tests do inside a sandbox: plain functions that return something JSON can hold."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import getpass
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def attempt(action: Any) -> str:
    """`ok`, or the name of the error."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return "ok"


def state() -> dict[str, Any]:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "uid": os.getuid(),
        "capabilities": [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
        "no_new_privs": int(status["NoNewPrivs"]),
        "seccomp": int(status["Seccomp"]),
        "home": os.environ["HOME"],
        "cwd": os.getcwd(),
        "tmpdir": tempfile.gettempdir(),
        "host": os.uname().nodename,
        "accounts": [account.pw_name for account in pwd.getpwall()],
        "user": getpass.getuser(),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "root": sorted(os.listdir("/")),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    }


def read(*paths: str) -> dict[str, str]:
    return {path: attempt(lambda path=path: Path(path).read_text()) for path in paths}


def write(*paths: str) -> dict[str, str]:
    return {path: attempt(lambda path=path: Path(path).write_text("x")) for path in paths}


def connect(port: int, abstract: str) -> dict[str, str]:
    def tcp() -> None:
        with socket.socket() as plain:
            plain.settimeout(2)
            plain.connect(("127.0.0.1", port))

    def unix() -> None:
        with socket.socket(socket.AF_UNIX) as local:
            local.connect("\0" + abstract)

    return {
        "tcp": attempt(tcp),
        "abstract": attempt(unix),
        "vsock": attempt(lambda: socket.socket(40, socket.SOCK_STREAM)),
    }


def forbidden(pid: int) -> dict[str, str]:
    """Calls that the filter or the namespaces must refuse; `pid` is a process of the host."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: Any) -> str:
        if getattr(libc, name)(*arguments) >= 0:
            return "ok"
        return errno.errorcode[ctypes.get_errno()]

    child = os.fork()
    if not child:
        signal.pause()
    found = {
        "ptrace a child": call("ptrace", 16, child, 0, 0),
        "ptrace init": call("ptrace", 16, 1, 0, 0),
        "mount": call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "unshare user": call("unshare", 0x10000000),
        "unshare net": call("unshare", 0x40000000),
        "setns": call("setns", 0, 0),
        "process_vm_readv": call("process_vm_readv", child, None, 0, None, 0, 0),
        "clone with a user namespace": call("syscall", 56 if os.uname().machine == "x86_64" else 220, 0x10000011, 0),
        "io_uring_setup": call("syscall", 425, 8, None),
        "pidfd_getfd": call("syscall", 438, 0, 0, 0),
        "chroot": call("chroot", b"/tmp"),
        "setuid": call("setuid", 0),
        "kill": attempt(lambda: os.kill(pid, 0)),
        "memory of init": attempt(lambda: open("/proc/1/mem", "rb").close()),
        "environment of init": attempt(lambda: open("/proc/1/environ", "rb").close()),
        "kernel settings": attempt(lambda: Path("/proc/sys/kernel/hostname").write_text("x")),
    }
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return found


def unshare_files() -> str:
    """unshare without a namespace stays allowed."""
    return attempt(lambda: ctypes.CDLL(None).unshare(0x400))


def fork_bomb(stay: bool) -> dict[str, Any]:
    """Fork until refused, in new sessions, orphans included, all of which go on forking; return or stay with them."""
    made = 0
    try:
        while made < 5000:
            if os.fork() == 0:
                _fork_on()
            made += 1
    except OSError as error:
        if stay:
            _fork_on()
        return {"made": made, "error": errno.errorcode[error.errno or 0]}
    return {"made": made, "error": ""}


def _fork_on() -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            os.setsid()
        try:
            if os.fork() and os.getpid() % 2:
                os._exit(0)  # its child becomes an orphan
        except OSError:
            time.sleep(0.001)
    os._exit(0)


def orphan_in_new_session() -> int:
    """Leaves a grandchild in a session of its own, which ignores polite signals."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(120)
        os._exit(0)
    time.sleep(0.1)
    return 0


def fill(folder: str, most: int) -> dict[str, Any]:
    """Write until the disk is full; bytes written and the error."""
    written = 0
    chunk = b"x" * (1 << 20)
    try:
        for number in range(most >> 20):
            with open(f"{folder}/file{number}", "wb") as file:
                file.write(chunk)
            written += len(chunk)
    except OSError as error:
        return {"written": written, "error": errno.errorcode[error.errno or 0]}
    return {"written": written, "error": ""}


def hog(step_bytes: int) -> int:
    held = []
    while True:
        held.append(bytearray(os.urandom(4096)) * (step_bytes // 4096))
        time.sleep(0.005)


def die_by(number: int) -> int:
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)
    return 0


def leave(status: int) -> int:
    os._exit(status)


def wait(seconds: float) -> int:
    time.sleep(seconds)
    return 0


def run_python(code: str) -> dict[str, Any]:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return {"status": run.returncode, "out": run.stdout, "error": run.stderr[-2000:]}


def run_file(code: str) -> dict[str, Any]:
    """As `run_python` for code whose source must be readable (Triton's)."""
    Path("program.py").write_text(code)
    run = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True)
    return {"status": run.returncode, "out": run.stdout, "error": run.stderr[-2000:]}


def compile_c() -> dict[str, Any]:
    Path("a.c").write_text('#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n')
    run = subprocess.run(["gcc", "a.c", "-o", "a.out"], capture_output=True, text=True)
    if run.returncode:
        return {"status": run.returncode, "error": run.stderr}
    return {"status": 0, "out": subprocess.run(["./a.out"], capture_output=True, text=True).stdout}


def threads(count: int) -> int:
    import threading

    done = []
    made = [threading.Thread(target=lambda: done.append(1)) for _ in range(count)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    return len(done)
