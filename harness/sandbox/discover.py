"""What a worker needs to see of this machine: interpreter, packages, system, compilers, driver, devices.

An allow-list. Nothing of a home folder, of the store or of a board's folder is on it, wherever they lie.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import site
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import harness

PACKAGE = Path(harness.__file__).resolve().parent

WORKER_PARTS = (
    "__init__.py",
    "errors.py",
    "scratch.py",
    "trees.py",
    "boards/__init__.py",
    "boards/board.py",
    "cuda",
    "evaluation/__init__.py",
    "evaluation/record.py",
    "sandbox",
    "wire",
    "worker",
)
"""What of our own package a worker may have to import: no reference, no board, no store."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/opengl-driver")
_SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/os-release",
    "/etc/OpenCL",
)
_SYSFS = (
    "/sys/bus/pci",
    "/sys/class/pci_bus",
    "/sys/devices",
    "/sys/kernel/mm",
    "/sys/module/nvidia",
    "/sys/module/nvidia_uvm",
)
_TOOLS = ("cc", "gcc", "g++", "c++", "clang", "nvcc", "ptxas", "ninja", "as", "ld")
_PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom")
_CUDA_DEVICES = (
    "/dev/nvidia*",
    "/dev/nvidia-caps/*",
    "/dev/nvidia-caps-imex-channels/*",
    "/dev/dxg",
)  # dxg: the driver under WSL


def interpreter_paths() -> list[str]:
    """The interpreter's prefixes, its site-packages, PYTHONPATH and what .pth files add to it."""
    found = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    # Through its links: a venv's python links to the base one, maybe by way of further links.
    found += [str(Path(os.path.realpath(sys.executable)).parent.parent)] if sys.executable else []
    packages = _site_packages()
    found += [path for path in sys.path if path in packages]
    added = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    for folder in packages:
        added += _path_files(folder)
    found += [path for path in added if not _too_much(path) and not _is_checkout(path)]
    never = ("/", *map(os.path.realpath, _home()))
    return [path for path in found if os.path.exists(path) and os.path.realpath(path) not in never]


def _site_packages() -> list[str]:
    return [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]


def _is_checkout(path: str) -> bool:
    """A folder with this package's source in it, this one or another: boards, with their references, lie beside it."""
    return os.path.isdir(os.path.join(path, PACKAGE.name, "sandbox"))


def private_paths() -> list[str]:
    """What stays invisible even where it lies below a folder that is shown; what is shown of it lies on top."""
    checkout = [] if PACKAGE.parent.name in ("site-packages", "dist-packages") else [str(PACKAGE.parent)]
    named = [os.environ.get("HARNESS_HOME", ""), *os.environ.get("HARNESS_LEADERBOARDS", "").split(os.pathsep)]
    named = [os.path.abspath(os.path.expanduser(path)) for path in named if path]
    installed = [os.path.join(folder, PACKAGE.name) for folder in _site_packages()]  # it brings its boards along
    others = [path for path in installed if os.path.isdir(path) and os.path.realpath(path) != str(PACKAGE)]
    return [str(PACKAGE), *checkout, *_home(), *others, *named]


def _home() -> list[str]:
    """The user's home folder; empty for one who has none of their own."""
    home = os.path.expanduser("~")
    return [home] if os.path.isabs(home) and home != "/" else []


def _path_files(folder: str) -> list[str]:
    """Folders that the .pth files of a site-packages folder add to the import path (editable installs)."""
    found = []
    for name in sorted(glob.glob(os.path.join(folder, "*.pth"))):
        try:
            lines = Path(name).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        plain = [line.strip() for line in lines if line.strip() and not line.startswith(("#", "import ", "import\t"))]
        found += [os.path.join(folder, line) for line in plain]
    return found


def package_paths() -> list[str]:
    """The parts of this package that a worker may import; the rest of it is hidden by `PACKAGE`."""
    return [str(PACKAGE / part) for part in WORKER_PARTS if (PACKAGE / part).exists()]


def _named_compilers() -> list[str]:
    """The programs that `CC` and the like name, which need not be on the path."""
    commands = (os.environ.get(name, "").split() for name in ("CC", "CXX", "CUDAHOSTCXX"))
    return [words[0] for words in commands if words]


def system_paths(*, cuda: bool) -> list[str]:
    """System libraries and programs, a few settings, and compilers and CUDA that live elsewhere."""
    found = []
    for tool in (*_TOOLS, *_named_compilers()):
        where = shutil.which(tool)
        if where:
            parent = Path(os.path.realpath(where)).parent
            found.append(str(parent.parent if parent.name == "bin" else parent))
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")] if cuda else []
    found += [path for path in (*libraries, *homes) if os.path.isabs(path) and os.path.exists(path)]
    found = [path for path in found if not _too_much(path)]
    return [path for path in (*_SYSTEM, *_SETTINGS, *_SYSFS) if os.path.exists(path)] + found


def device_nodes(*, cuda: bool) -> list[str]:
    found = [f"/dev/{name}" for name in _PLAIN_DEVICES]
    if cuda:
        for pattern in _CUDA_DEVICES:
            found += sorted(glob.glob(pattern))
    return [path for path in found if stat.S_ISCHR(_mode(path))]


def device_groups(nodes: Iterable[str]) -> tuple[int, ...]:
    """Groups needed for device nodes that not everybody may open; never root's."""
    groups = set()
    for node in nodes:
        found = os.stat(node)
        if found.st_gid and found.st_mode & 0o060 == 0o060 and found.st_mode & 0o006 != 0o006:
            groups.add(found.st_gid)
    return tuple(sorted(groups))


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def _too_much(path: str) -> bool:
    """Whether showing a folder would show what must stay private: a home, the working folder, our own checkout."""
    real = Path(os.path.realpath(path))
    private = [*map(Path, _home()), PACKAGE]
    with contextlib.suppress(OSError):
        private.append(Path.cwd())
    inner = [Path(os.path.realpath(each)) for each in private if each != Path("/")]
    return real == Path("/") or any(real == each or real in each.parents for each in inner)
