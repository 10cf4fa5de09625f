"""cholesky_best on a GPU, called in ways that a board never calls it."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from cholesky_checks import residual, views_of
from emulated import load_submission

CUDA = torch.cuda.is_available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]

SIZES = (20, 64, 100, 128, 256, 512, 1024)


@pytest.fixture(scope="module")
def best() -> ModuleType:
    return load_submission("cholesky", "cholesky_best.py")


def matrices(batch: int, n: int, device: str = "cuda") -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(n)
    x = torch.randn(batch, n, n, generator=generator, device=device)
    return x @ x.mT / n + torch.eye(n, device=device)


def check(data: torch.Tensor, found: torch.Tensor) -> None:
    assert found.device == data.device
    assert residual(data, found) < 1
    assert not bool(found.triu(1).any())


@pytest.mark.parametrize("n", SIZES)
def test_any_view_of_the_matrices(best: ModuleType, n: int) -> None:
    data = matrices(3, n)
    for view in [data, *views_of(data).values()]:
        check(data, best.custom_kernel(view))


def test_no_matrices(best: ModuleType) -> None:
    for n in SIZES:
        assert best.custom_kernel(torch.empty(0, n, n, device="cuda")).shape == (0, n, n)


@pytest.mark.parametrize("n", SIZES)
def test_a_captured_graph_on_another_stream(best: ModuleType, n: int) -> None:
    data = matrices(2, n)
    best.custom_kernel(data)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = best.custom_kernel(data)
    data.copy_(matrices(2, n).flip(0) * 2)
    graph.replay()
    check(data, found)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("n", SIZES)
def test_a_device_that_is_not_the_current_one(best: ModuleType, n: int) -> None:
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        data = matrices(2, n, device)
        check(data, best.custom_kernel(data))
        assert torch.cuda.current_device() == 0
