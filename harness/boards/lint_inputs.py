"""The part of `harness lint` that looks at what `generate_input` returns."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import torch

from harness.boards import answers
from harness.boards.board import Board, Spec
from harness.boards.description import described_form, described_names, dimensions
from harness.boards.lint import Code, Findings, Severity
from harness.boards.reference import Reference
from harness.wire.packing import tensor_leaves


def check_inputs(reference: Reference, spec: Spec, data: Any, case: str, findings: Findings) -> None:
    """Seeds, description and `in_place` paths against the data of one case."""
    _check_seed(reference, spec, data, case, findings)
    if _check_tuple(reference.board, data, findings):
        _check_forms(reference, spec, data, case, findings)
    _check_in_place(reference.board, data, findings)


def _check_seed(reference: Reference, spec: Spec, data: Any, case: str, findings: Findings) -> None:
    seed = spec.get("seed")
    seed = seed if isinstance(seed, int) else 1
    torch.manual_seed(2)  # a generator that reads the global state without seeding it is found out
    first = reference.generate(spec, seed)
    torch.manual_seed(3)
    again = reference.generate(spec, seed)
    for path in answers.differing_paths(first, again):
        findings.add(
            Code.NOT_DETERMINISTIC,
            f"generate_input makes another input {path or 'data'} from the same seed",
            case=case,
            hint="Draw everything from a generator seeded with `seed`.",
        )
    other = reference.generate(spec, seed + 1)
    if any(True for _ in tensor_leaves(data)) and not answers.differing_paths(first, other):
        vary = reference.has_vary
        findings.add(
            Code.SEED_IGNORED,
            "generate_input makes the same input from another seed",
            severity=Severity.NOTE if vary else Severity.ERROR,
            case=case,
            hint="Timed inputs are fresh by vary_input alone."
            if vary
            else "Fresh inputs come from secret seeds: let the values depend on `seed`, or define vary_input.",
        )


def _items(names: tuple[str, ...], data: Any) -> tuple[Any, ...] | None:
    """What the described names stand for, or None where their number is another."""
    if len(names) == 1 and not isinstance(data, tuple):
        return (data,)
    return data if isinstance(data, tuple) and len(data) == len(names) else None


def _check_tuple(board: Board, data: Any, findings: Findings) -> bool:
    """Whether the description's line `data = (…)` is there and counts as many items as there are."""
    names = described_names(board.description)
    if names is None:
        findings.add(
            Code.DESCRIPTION_TUPLE,
            "the description has no line `data = (a, b, …)`",
            severity=Severity.WARNING,
            hint="Such a line says what generate_input returns, and is compared with it.",
        )
        return False
    if _items(names, data) is None:
        count = len(data) if isinstance(data, tuple) else 1
        findings.add(
            Code.DESCRIPTION_TUPLE,
            f"the description's data is {len(names)} ({', '.join(names)}), generate_input returns {count}",
            hint="Make the line `data = (…)` say what is returned.",
        )
        return False
    return True


def _check_forms(reference: Reference, spec: Spec, data: Any, case: str, findings: Findings) -> None:
    """Dtypes and shapes, where the description gives them in words that can be compared."""
    description = reference.board.description
    names = described_names(description) or ()
    full = reference.full_spec(spec)
    for name, item in zip(names, _items(names, data) or (), strict=True):
        form = described_form(description, name)
        if form is None or not isinstance(item, torch.Tensor):
            continue
        dtype, dims = form
        shape = dimensions(dims, full)
        actual = str(item.dtype).removeprefix("torch.")
        if dtype and dtype != actual:
            findings.add(Code.DESCRIPTION_FORM, f"the description says {name} is {dtype}; it is {actual}", case=case)
        if shape is not None and shape != tuple(item.shape):
            said = ", ".join(dims)
            findings.add(
                Code.DESCRIPTION_FORM,
                f"the description says {name} is [{said}] = {list(shape)}; it is {list(item.shape)}",
                case=case,
            )


def _check_in_place(board: Board, data: Any, findings: Findings) -> None:
    paths = [path for path, _ in tensor_leaves(data)]
    for pattern in board.settings.in_place:
        if not any(fnmatchcase(path, pattern) for path in paths):
            findings.add(
                Code.IN_PLACE_PATH,
                f"in_place: no tensor of the data has the path '{pattern}'",
                hint=f"The data's paths are {', '.join(paths[:12]) or 'none'}.",
            )
