"""What a sandbox shall show and allow: values only, so that a plan travels as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.evaluation.record import IsolationLevel

MOUNT_LEVELS = (IsolationLevel.NAMESPACES, IsolationLevel.BUBBLEWRAP)
"""The levels at which the worker sees an allow-list of files instead of the host's tree."""

WORKER_NAME = "worker"


@dataclass(frozen=True)
class Bind:
    """One host file or folder shown inside. `target` is the same path unless told otherwise."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class SandboxPlan:
    """What is applied by `enter`. Paths are absolute host paths; sizes are bytes."""

    level: IsolationLevel
    read_only: tuple[str, ...] = ()
    """Shown read-only at the same place. Symbolic links on the way are shown as links."""
    devices: tuple[str, ...] = ()
    """Device nodes shown at the same place."""
    binds: tuple[Bind, ...] = ()
    """Caches, the submission's file: shown at `target`; those that are writable are handed to the worker's uid."""
    hidden: tuple[str, ...] = ()
    """Files and folders that stay invisible although one of the folders above would show them."""
    scratch: str | None = None
    """Host folder for HOME, TMPDIR and the working folder. With `scratch_bytes` at a mount level it isn't shown."""
    scratch_bytes: int | None = None
    """At a mount level: /tmp (and HOME) is memory of this size. Without: /tmp is the `scratch` folder, unbounded."""
    memory_bytes: int | None = None
    """Bound for cgroups made of this plan, and for the watcher; `enter` itself doesn't apply it."""
    processes: int | None = None
    """Most processes and threads of the worker."""
    file_bytes: int | None = None
    """Largest file that may be written (RLIMIT_FSIZE)."""
    disk_bytes: int | None = None
    """Bound for the watcher of `writable_folders`, all together; `enter` itself doesn't apply it."""
    uid: int | None = None
    """User and group id to run as; None keeps the present one."""
    groups: tuple[int, ...] = ()
    """Supplementary groups, for device nodes that only a group may open."""
    cgroups: tuple[str, ...] = ()
    """Control-group folders to join (see `cgroup.Cgroup`)."""
    notes: tuple[str, ...] = field(default=())
    """What is weaker than it could be, and why."""

    @property
    def mounts(self) -> bool:
        """Whether the worker gets a file tree of its own."""
        return self.level in MOUNT_LEVELS

    @property
    def home(self) -> str:
        """HOME, TMPDIR and the working folder as the worker sees them."""
        if self.mounts:
            return "/tmp"
        if self.scratch is None:
            raise ValueError(f"level {self.level} needs a scratch folder")
        return self.scratch

    @property
    def writable_folders(self) -> tuple[str, ...]:
        """What of the host's disk the worker is given to write to."""
        folders = [bind.source for bind in self.binds if bind.writable]
        if self.scratch is not None and not (self.mounts and self.scratch_bytes is not None):
            folders.append(self.scratch)
        return tuple(folders)

    def environment(self) -> dict[str, str]:
        """The variables that `enter` sets in the worker."""
        home = self.home
        return {
            "HOME": home,
            "TMPDIR": home,
            "XDG_CACHE_HOME": f"{home}/.cache",
            "USER": WORKER_NAME,
            "LOGNAME": WORKER_NAME,
        }

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> SandboxPlan:
        """Inverse of `to_dict`, also after a trip through JSON (lists for tuples)."""
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
        values["level"] = IsolationLevel(raw["level"])
        values["binds"] = tuple(Bind(**bind) for bind in raw.get("binds", ()))
        return cls(**values)
