"""The host side of cholesky_best, with kernels that only note how they are launched: its own run on a GPU alone."""

from __future__ import annotations

from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import torch
from cholesky_checks import views_of
from emulated import load_submission

HERE = -1
"""What a CPU tensor gives as its device."""


@pytest.fixture
def best(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`launches` has names and arguments, `loaded` the device of every kernel made, `current` the current device."""
    module = load_submission("cholesky", "cholesky_best.py")
    module.launches, module.loaded, module.current = [], [], HERE

    def kernel(source: str, name: str, shared_bytes: int) -> Any:
        home = module.current
        module.loaded.append(home)

        def launch(*, grid: Any, block: Any, args: list[Any], shared_mem: int = 0) -> None:
            assert home == module.current
            assert min(grid) >= 1
            assert shared_mem == shared_bytes
            module.launches.append((name, args))

        return launch

    @contextmanager
    def on(device: torch.device) -> Any:
        before, module.current = module.current, HERE
        yield
        module.current = before

    monkeypatch.setattr(module, "kernel", kernel)
    monkeypatch.setattr(module, "multiprocessors", lambda device: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: module.current)
    monkeypatch.setattr(torch.cuda, "device", on)
    return module


@pytest.mark.parametrize("n", [20, 32, 64, 100, 128, 256, 300])
def test_kernels_get_whole_aligned_matrices(best: ModuleType, n: int) -> None:
    data = torch.rand(3, n, n)
    for view in [data, *views_of(data).values()]:
        out = best.custom_kernel(view)
        _, (given, written, *_) = best.launches.pop()
        assert given.is_contiguous()
        assert written.is_contiguous()
        assert given.data_ptr() % best.ALIGNED == written.data_ptr() % best.ALIGNED == 0
        assert torch.equal(given, data)
        assert written is out
    assert best.custom_kernel(data) is not data
    assert best.launches.pop()[1][0] is data
    assert len(best.loaded) == 1


@pytest.mark.parametrize("n", [20, 64, 128, 300])
def test_of_no_matrices_nothing_is_launched(best: ModuleType, n: int) -> None:
    assert best.custom_kernel(torch.empty(0, n, n)).shape == (0, n, n)
    assert not best.launches


@pytest.mark.parametrize("n", [20, 64, 128, 300])
def test_launched_on_the_device_of_the_matrices(best: ModuleType, n: int) -> None:
    best.current = 5
    best.custom_kernel(torch.rand(2, n, n))
    assert best.current == 5
    assert best.loaded == [HERE]
    assert len(best.launches) == 1


def test_a_kernel_is_loaded_once_a_device(best: ModuleType) -> None:
    for device in (0, 1, 0, 1):
        best.current = device
        for whole in (True, False):
            best.tile_kernel("factor_tiles", whole, 0, device)
        best.small_kernel("factor_32", device)
    assert best.loaded == [0, 0, 0, 1, 1, 1]


def test_a_list_of_tasks_stays_where_a_graph_reads_it(best: ModuleType) -> None:
    first = best.task_list(1, 129, torch.device("cpu"))
    for batch in range(2, 100):
        best.task_list(batch, 129, torch.device("cpu"))
    assert best.task_list(1, 129, torch.device("cpu")).data_ptr() == first.data_ptr()
