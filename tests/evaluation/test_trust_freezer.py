"""What stops a CPU worker while its input is written and its output read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.sandbox import Freezer, RanWhileFrozenError, kill_tree
from harness.sandbox.freeze import NEVER, STOLEN_NS, STOPPING_NS, Ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

GUARD = "import os, sys, time\nif os.fork() == 0:\n    exec(sys.argv[1])\n    os._exit(0)\ntime.sleep(600)"
COUNTS = """
import threading, sys
def count():
    with open(sys.argv[2], "ab", buffering=0) as file:
        while True:
            sum(range(2000))
            file.write(b".")
threading.Thread(target=count).start()
count()
"""


class Tree:
    """A guard with one child below it that runs a program."""

    def __init__(self, program: str, file: Path) -> None:
        self.file = file
        self._process = subprocess.Popen([sys.executable, "-c", GUARD, program, str(file)])
        self.freezer = Freezer(self._process.pid)
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        deadline = time.monotonic() + 30
        while not children.read_text().split() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.child = int(children.read_text().split()[0])

    def steps(self) -> int:
        """How far the program is."""
        return self.file.stat().st_size if self.file.exists() else 0

    def goes_on(self) -> bool:
        before, deadline = self.steps(), time.monotonic() + 30
        while self.steps() == before and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.steps() > before

    def close(self) -> None:
        kill_tree(self._process.pid)
        self._process.wait()


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(COUNTS, tmp_path / "count")
    yield tree
    tree.close()


def test_nothing_moves_while_frozen_and_all_goes_on_afterwards(counting: Tree) -> None:
    assert counting.goes_on()
    counting.freezer.freeze()
    before = counting.steps()
    time.sleep(0.2)
    counting.freezer.check()
    assert counting.steps() == before
    counting.freezer.thaw()
    assert counting.goes_on()


def test_what_is_sent_on_its_way_by_others_is_noticed(counting: Tree) -> None:
    """A timer's signal can be SIGCONT, which continues a stopped process."""
    assert counting.goes_on()
    counting.freezer.freeze()
    os.kill(counting.child, signal.SIGCONT)
    time.sleep(0.5)
    with pytest.raises(RanWhileFrozenError):
        counting.freezer.check()


def test_stop_does_not_wait_and_thaw_undoes_it(counting: Tree) -> None:
    assert counting.goes_on()
    counting.freezer.freeze()
    counting.freezer.thaw()
    counting.freezer.stop()
    state = Path(f"/proc/{counting.child}/stat")
    deadline = time.monotonic() + 30
    while state.read_text().rpartition(")")[2].split()[0] != "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert state.read_text().rpartition(")")[2].split()[0] == "T"
    counting.freezer.thaw()
    while state.read_text().rpartition(")")[2].split()[0] == "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert state.read_text().rpartition(")")[2].split()[0] != "T"


BEARS = """
import os, sys, time
while not os.path.exists(sys.argv[2]):
    time.sleep(0.001)
os.fork()
time.sleep(600)
"""


def test_freeze_says_whether_stop_had_reached_all(tmp_path: Path) -> None:
    """A process born since the last freeze is none that `stop` knows."""
    tree = Tree(BEARS, tmp_path / "now")
    try:
        assert not tree.freezer.freeze()
        tree.freezer.thaw()
        tree.freezer.stop()
        assert tree.freezer.freeze()
        tree.freezer.thaw()
        tree.file.touch()
        children = Path(f"/proc/{tree.child}/task/{tree.child}/children")
        deadline = time.monotonic() + 30
        while not children.read_text().split() and time.monotonic() < deadline:
            time.sleep(0.01)
        tree.freezer.stop()
        assert not tree.freezer.freeze()
    finally:
        tree.close()


def test_what_was_continued_and_stopped_again_is_noticed(counting: Tree) -> None:
    assert counting.goes_on()
    counting.freezer.freeze()
    os.kill(counting.child, signal.SIGCONT)
    assert counting.goes_on()
    os.kill(counting.child, signal.SIGSTOP)
    time.sleep(0.05)
    with pytest.raises(RanWhileFrozenError):
        counting.freezer.check()


def test_a_core_taken_away_on_the_way_to_the_stop_is_no_running() -> None:
    """On a virtual machine 0.33 ms were once counted of a thread that was marked as stopped and given no core again."""
    before = Ran(8_553_041_974, {1: 632_372, 2: 5})
    once_more = {1: 632_372, 2: 6}
    assert before.may_be_of_the_stop(Ran(before.ns + 330_456, before.times))
    assert not before.may_be_of_the_stop(Ran(before.ns + STOLEN_NS + 1, before.times))
    assert before.may_be_of_the_stop(Ran(before.ns + STOPPING_NS, once_more))
    assert not before.may_be_of_the_stop(Ran(before.ns + STOPPING_NS + 1, once_more))
    assert not before.may_be_of_the_stop(Ran(before.ns + STOPPING_NS + 1, {1: 632_372}))  # a thread is gone
    assert not before.may_be_of_the_stop(Ran(before.ns - 1, before.times))
    assert not Ran(0, {1: 0}).may_be_of_the_stop(Ran(10_000_000, {1: 0}))  # where the kernel does not count
    assert not NEVER.may_be_of_the_stop(Ran(0, {1: 1}))


WAITS_FOR_ITS_THREAD = """
import ctypes, sys, time
VFORK_THREAD = 0x100 | 0x200 | 0x400 | 0x800 | 0x4000 | 0x10000  # VM FS FILES SIGHAND VFORK THREAD
stack = ctypes.create_string_buffer(8 << 20)
top = ctypes.c_void_p((ctypes.addressof(stack) + (8 << 20) - 4096) & ~15)
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def beside(_):
    with open(sys.argv[2], "ab", buffering=0) as file:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            sum(range(2000))
            file.write(b".")
    return 0
while True:
    ctypes.CDLL(None).clone(beside, top, VFORK_THREAD, None)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls clone by hand")
def test_what_a_signal_does_not_stop_at_once_is_told(tmp_path: Path) -> None:
    """A first thread that waits in the kernel for another of its process, which runs on meanwhile."""
    tree = Tree(WAITS_FOR_ITS_THREAD, tmp_path / "count")
    try:
        assert tree.goes_on()
        tree.freezer.freeze()
        tree.freezer.thaw()
        assert tree.goes_on()
        tree.freezer.stop()
        assert not tree.freezer.freeze()
        tree.freezer.check()
    finally:
        tree.close()
