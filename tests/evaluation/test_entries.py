"""Which function of a file is called, and how."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import REPOSITORY, Command

BASELINE = (REPOSITORY / "submissions" / "moe_fp8" / "moe_fp8_torch.py").read_text()

TEN = ", ".join("abcdefghij")
ENTRIES = {
    "run with ten arguments": "def run(*items):\n    return answer(items)\n",
    "kernel with ten arguments": f"def kernel({TEN}):\n    return answer(({TEN}))\n",
    "kernel that writes its output": f"def kernel({TEN}, output):\n    output.copy_(answer(({TEN})))\n",
}


@pytest.mark.parametrize("name", ENTRIES)
def test_positional_entries_of_the_flashinfer_contest(name: str, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "contest.py"
    file.write_text(BASELINE + "\n\nanswer = custom_kernel\ndel custom_kernel\n" + ENTRIES[name])
    answer = command("submit", file, "--mode", "test", "--case", "1", "--json")
    assert answer.status == 0, answer.evaluation["reason"]


def test_a_board_is_found_by_its_alias(command: Command, write: Callable[..., Path]) -> None:
    alias = "moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048"
    answer = command("run", write("def custom_kernel(data):\n    return data\n", alias), "--case", "0", "--json")
    assert answer.status == 1
    assert answer.evaluation["reason"]["code"] == "contract"
