"""The kernel library, compiled once a session in the warm workplace, two kernels at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from compiling_helpers import NEEDS, need

from harness.boards.find import find_board
from harness.compiling.architectures import find_architecture
from harness.compiling.compile import Compiled, compile_file
from harness.compiling.request import CompileRequest
from harness.compiling.workplace import Workplace

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def compile_kernel(workplace: Workplace, request: pytest.FixtureRequest) -> Iterator[Callable[..., Compiled]]:
    """`compile_kernel("triton_good.py", "sm_90a", cases=(0,))`: a file of the library, compiled; each once a session.

    Two at a time: with the first call the whole library is begun, unless several processes share the tests.
    """
    known: dict[tuple[object, ...], Future[Compiled]] = {}
    pool = ThreadPoolExecutor(2)

    def begin(name: str, architecture: str = "sm_100a", cases: tuple[int, ...] = (0,)) -> Future[Compiled]:
        key = (name, architecture, cases)
        if key not in known:
            known[key] = pool.submit(compile_file_of_library, workplace, *key)
        return known[key]

    def compile_(name: str, architecture: str = "sm_100a", cases: tuple[int, ...] = (0,)) -> Compiled:
        if name.partition("_")[0] in (*NEEDS, "nvrtc", "inline", "plain"):
            need(name.partition("_")[0])
        return begin(name, architecture, cases).result()

    whole = len(request.session.items) > 30 and not hasattr(request.config, "workerinput")
    for path in sorted((HERE / "kernels").glob("*_*.*")) if whole else ():
        if path.suffix != ".cuh" and can(path.name.partition("_")[0]):
            begin(path.name)
    yield compile_
    pool.shutdown(cancel_futures=True)


def compile_file_of_library(workplace: Workplace, name: str, architecture: str, cases: tuple[int, ...]) -> Compiled:
    path = HERE / "kernels" / name
    board = None if path.suffix == ".cu" else find_board(str(HERE / "tile"))
    request = CompileRequest(
        source=path.read_text(),
        file_name=name,
        board=board,
        architectures=(find_architecture(architecture),),
        only=cases if board is not None else (),
        beside=path.parent if board is None else None,
    )
    (compiled,) = compile_file(request, workplace=workplace)
    return compiled


def can(dsl: str) -> bool:
    try:
        need(dsl)
    except pytest.skip.Exception:
        return False
    return True


@pytest.fixture(autouse=True)
def _store_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HARNESS_LEADERBOARDS", str(HERE))
