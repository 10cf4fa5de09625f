"""The extractor against kernels that were labelled by hand; docs/techniques.md states the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from labelled_kernels import Kernel, Score, kernels, score

from harness.techniques import Technique

EVERY = list(kernels())


@pytest.mark.parametrize("kernel", EVERY, ids=lambda kernel: kernel.name)
def test_nothing_false_and_nearly_nothing_missed(kernel: Kernel) -> None:
    result = score(kernel)
    assert result.right == result.found, result.errors
    assert result.labels - result.right <= (2 if kernel.name == "cholesky_best.py" else 0), result.errors


def test_the_set_is_what_the_docs_say() -> None:
    assert len(EVERY) >= 20
    parts = {part: [kernel for kernel in EVERY if kernel.part == part] for part in ("seen", "unseen")}
    assert len(parts["seen"]) == len(parts["unseen"]) == 15
    labelled = {label.technique for kernel in EVERY for label in kernel.labels}
    assert labelled == set(Technique)  # each technique is met at least once
    text = (Path(__file__).parents[2] / "docs" / "techniques.md").read_text()
    for part, chosen in parts.items():
        total = sum((score(kernel) for kernel in chosen), Score())
        shares = [total.precision, total.recall, total.line, total.condition]
        assert f"| {part} | {len(chosen)} | {total.labels} | {' | '.join(shares)} |" in text


def test_lines_and_conditions() -> None:
    total = sum((score(kernel) for kernel in EVERY), Score())
    assert total.on_the_line >= 0.99 * total.right
    assert total.conditions_right >= 0.95 * total.conditions
