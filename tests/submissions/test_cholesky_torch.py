"""The cholesky board's kernels in plain torch, at sizes that cross a block, a loop and a tail."""

from __future__ import annotations

from types import ModuleType

import pytest
from cholesky_checks import assert_right, assert_right_of_any_view
from emulated import load_submission

SIZES = [(3, 1, "dense", 2), (2, 7, "dense", 2), (2, 100, "lowrank", 4), (3, 257, "dense", 2), (2, 600, "rowscale", 4)]


@pytest.mark.parametrize(("batch", "n", "case", "cond"), SIZES)
@pytest.mark.parametrize("name", ["cholesky_torch_blocked", "cholesky_torch_left", "cholesky_torch_looped"])
def test_right_at_any_size(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, batch: int, n: int, case: str, cond: int
) -> None:
    module = load_submission("cholesky", f"{name}.py")
    if name == "cholesky_torch_looped":
        monkeypatch.setattr(module, "LOOPED_FROM", 100)
    assert_right(module, reference, batch, n, case, cond)


@pytest.mark.parametrize("name", ["torch", "torch_blocked", "torch_left", "torch_looped"])
def test_right_of_any_view(reference: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = load_submission("cholesky", f"cholesky_{name}.py")
    monkeypatch.setattr(module, "LOOPED_FROM", 100, raising=False)
    assert_right_of_any_view(module, reference, 2, 260)
