"""What the worker can't see and can't do, and what it must still be able to."""

from __future__ import annotations

import os
import signal
import socket
import textwrap

import pytest
from sandbox_launch import HERE, Launcher

from harness.sandbox.plan import WORKER_NAME

MIB = 1 << 20


def test_state(launch: Launcher) -> None:
    report = launch("state")
    state = report["value"]
    assert state["capabilities"] == [0, 0, 0, 0]
    assert state["no_new_privs"] == 1
    assert state["seccomp"] == 2
    assert (state["home"], state["cwd"], state["tmpdir"]) == ("/tmp", "/tmp", "/tmp")
    assert state["host"] == "sandbox"
    assert (state["user"], state["accounts"]) == (WORKER_NAME, [WORKER_NAME])
    assert state["processes"] == [1, 2]
    assert "home" not in state["root"]
    assert len(state["descriptors"]) == 5  # 0, 1, 2, the answer's pipe, and the listing's own
    if os.getuid() == 0 and launch.user == "self":
        assert state["uid"] == report["uid"] > 65536
    assert report["exit"] == 0
    assert report["survivors"] == 0


def test_secrets_cannot_be_read(launch: Launcher) -> None:
    store = launch.make_folder("store")
    (store / "harness.db").write_text("secret")
    board = HERE.parents[1] / "leaderboards"
    paths = [str(store / "harness.db"), str(board), str(HERE / "inside.py"), "/etc/shadow", "/etc/hostname"]
    assert all(os.path.exists(path) for path in (*paths[:3],))
    assert set(launch("read", *paths)["value"].values()) == {"ENOENT"}


def test_hidden_below_a_shown_folder(launch: Launcher) -> None:
    shown = launch.make_folder("shown")
    (shown / "open").write_text("x")
    (shown / "private").mkdir()
    (shown / "private" / "key").write_text("x")
    (shown / "private.txt").write_text("x")
    paths = [str(shown / name) for name in ("open", "private/key", "private.txt")]
    hidden = [str(shown / name) for name in ("private", "private.txt")]
    code = f"import os; print([os.path.exists(p) and os.stat(p).st_mode & 0o170000 for p in {paths}])"
    options = {"readable": [str(shown)], "hidden": hidden}
    # A hidden file is an empty device in its place.
    assert launch("run_python", code, options=options)["value"]["out"].strip() == "[32768, False, 8192]"


def test_writes_only_in_scratch_and_writable(launch: Launcher) -> None:
    cache, source = launch.make_folder("cache"), launch.make_folder("source")
    allowed = ["/tmp/a", "/dev/shm/a", str(cache / "a")]
    refused = ["/a", "/usr/a", "/etc/passwd", str(source / "a"), os.__file__]
    checkout = HERE.parents[1] / "a"
    options = {"writable": [str(cache)], "readable": [str(source)]}
    report = launch("write", *allowed, *refused, str(checkout), options=options)
    found = report["value"]
    assert [found[path] for path in allowed] == ["ok"] * 3
    assert {found[path] for path in refused} <= {"EROFS", "EACCES", "ENOENT"}
    assert not checkout.exists(), "a checkout below /tmp has an empty folder of its name inside, and no more"
    assert (cache / "a").read_text() == "x"
    assert not os.path.exists("/tmp/a")
    assert list((launch.folder / "scratch").iterdir()) == []


def test_scratch_folder_as_tmp(launch: Launcher) -> None:
    report = launch("write", "/tmp/left", options={"scratch_bytes": None})
    assert report["value"] == {"/tmp/left": "ok"}
    assert (launch.folder / "scratch" / "left").read_text() == "x"


def test_no_network(launch: Launcher) -> None:
    name = f"harness-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0" + name)
        local.listen()
        found = launch("connect", server.getsockname()[1], name)["value"]
    assert found["tcp"] in ("ENETUNREACH", "ECONNREFUSED")
    assert found["abstract"] == "ECONNREFUSED"
    assert found["vsock"] == "EAFNOSUPPORT"


def test_forbidden_calls(launch: Launcher) -> None:
    found = launch("forbidden", os.getpid())["value"]
    expected = dict.fromkeys(found, "EPERM")
    expected |= {"kill": "ESRCH", "memory of init": "EACCES", "environment of init": "EACCES"}
    expected["kernel settings"] = "EROFS"
    if launch.user == "nobody":
        expected["setuid"] = "EINVAL"  # there's no uid 0 in its user namespace
    assert found == expected


def test_harmless_calls_stay(launch: Launcher) -> None:
    assert launch("unshare_files")["value"] == "ok"
    assert launch("threads", 50)["value"] == 50


def test_fork_bomb_ends_at_its_bound(launch: Launcher) -> None:
    report = launch("fork_bomb", False, options={"processes": 100})
    assert report["value"]["error"] == "EAGAIN"
    assert report["value"]["made"] <= 100
    assert report["survivors"] == 0
    assert report["seconds"] < 10


def test_fork_bomb_is_killed(launch: Launcher) -> None:
    report = launch("fork_bomb", True, options={"processes": 100}, kill_after_s=0.4)
    assert (report["left"], report["survivors"], report["exit"]) == (0, 0, -signal.SIGKILL)


def test_orphans_end_with_the_worker(launch: Launcher) -> None:
    report = launch("orphan_in_new_session")
    assert (report["exit"], report["survivors"]) == (0, 0)
    assert report["seconds"] < 5


def test_full_disk(launch: Launcher) -> None:
    for folder in ("/tmp", "/dev/shm"):
        filled = launch("fill", folder, 64 * MIB, options={"scratch_bytes": 8 * MIB})["value"]
        assert filled["error"] == "ENOSPC"
        assert filled["written"] <= 8 * MIB


def test_runaway_file(launch: Launcher) -> None:
    report = launch("fill", "/tmp", 2 * MIB, options={"file_bytes": MIB // 2})
    assert report["value"]["error"] == "EFBIG"  # Python ignores SIGXFSZ


def test_memory_hog_meets_the_watcher(launch: Launcher) -> None:
    report = launch("hog", 8 * MIB, watch_bytes=200 * MIB)
    assert report["exit"] == -signal.SIGKILL
    assert "200 MiB are allowed" in report["watcher"]
    assert report["survivors"] == 0


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status_is_the_workers(launch: Launcher, status: int) -> None:
    assert launch("leave", status)["exit"] == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_signal_is_the_workers(launch: Launcher, number: signal.Signals) -> None:
    assert launch("die_by", number)["exit"] == -number


def test_gcc_works(launch: Launcher) -> None:
    assert launch("compile_c")["value"] == {"status": 0, "out": "compiled\n"}


def test_torch_and_triton_work(launch: Launcher) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    code = textwrap.dedent(
        """
        import torch, triton, triton.language as tl
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        @triton.jit
        def double(x, y, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

        assert (torch.ones(4) + 1).tolist() == [2.0] * 4
        source = ASTSource(double, {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}, {(3,): 1024})
        print(len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]) > 1000)
        """
    )
    value = launch("run_file", code)["value"]
    assert value["out"].strip() == "True", value["error"]


def test_only_the_workers_part_of_this_package_is_there(launch: Launcher) -> None:
    code = textwrap.dedent(
        """
        import importlib.util as find, harness.sandbox, harness.evaluation.record
        names = ["harness.store", "harness.evaluation.seeds", "harness.boards.loader", "harness.cli"]
        print([name for name in names if find.find_spec(name)])
        """
    )
    value = launch("run_python", code)["value"]
    assert value["out"].strip() == "[]", value["error"]
