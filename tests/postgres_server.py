"""A PostgreSQL server of its own for tests and measurements: no network, an empty folder, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

DURABLE = ("fsync=on",)
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""For tests, which lose nothing when the machine fails."""


class NoServerError(Exception):
    """Why this machine can't run one."""


def binaries() -> Path:
    """The folder with `initdb` and `postgres`. Raises NoServerError when there is none."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in candidates:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise NoServerError("no initdb on PATH or in /usr/lib/postgresql/*/bin; install it with `apt install postgresql`")


class PostgresServer:
    """Use it in a `with` block. `url(name)` is that of a database, which `create(name)` makes."""

    def __init__(self, settings: tuple[str, ...] = FAST) -> None:
        self._binaries = binaries()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._user = self._other_user()
        self.folder = Path(tempfile.mkdtemp(prefix="harness-postgres-", dir="/tmp"))  # a socket's path must be short
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.folder.chmod(0o755)

    def __enter__(self) -> PostgresServer:
        try:
            self._run("initdb", "-D", f"{self.folder}/data", "-U", "harness", "-A", "trust", "-E", "UTF8",
                      "--locale=C.UTF-8", "--no-sync")  # fmt: skip
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        options = [part for setting in self._settings for part in ("-c", setting)]
        command = [
            f"{self._binaries}/postgres",
            "-D",
            f"{self.folder}/data",
            "-k",
            str(self.folder),
            "-h",
            "",
            *options,
        ]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, user=self._user)
        deadline = time.monotonic() + 60
        ready = [f"{self._binaries}/pg_isready", "-q", "-h", str(self.folder), "-U", "harness", "-d", "postgres"]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NoServerError(f"the server did not start: {(self.folder / 'log').read_text()[-1000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server at once, and every connection with it."""
        if self._process is not None:
            self._process.send_signal(2)  # SIGINT is its fast shutdown
            self._process.wait(timeout=60)
            self._process = None

    def create(self, name: str) -> str:
        """Make an empty database; its URL."""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://harness@/{name}?host={self.folder}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [f"{self._binaries}/{program}", *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            user=self._user,
            check=False,
        )
        if done.returncode:
            raise NoServerError(f"{program} failed: {done.stderr.strip()[-1000:]}")

    @staticmethod
    def _other_user() -> str | None:
        """Whom the server runs as: it refuses to run as root."""
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                pwd.getpwnam(name)
            except KeyError:
                continue
            return name
        raise NoServerError("a server can't run as root, and there is no other user")
