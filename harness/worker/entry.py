"""Finding and calling what the submission defines. Runs in the worker, beside the submission."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENTRY = "custom_kernel"
POSITIONAL_ENTRIES = ("kernel", "run")
"""Entry names of kernels that take the items of `data` as positional arguments, as FlashInfer's contest has them."""


class NoEntryError(Exception):
    """The file defines nothing to call."""


def load_entry(file_name: str) -> Callable[[Any], Any]:
    """Import the submission, whose folder is on the path, and return its entry as a function of `data`."""
    module = importlib.import_module(Path(file_name).stem)
    entry = getattr(module, ENTRY, None)
    if callable(entry):
        return entry
    for name in POSITIONAL_ENTRIES:
        positional = getattr(module, name, None)
        if callable(positional):
            return positional_adapter(positional)
    raise NoEntryError(f"the file defines no function {ENTRY}(data)")


def positional_adapter(entry: Callable[..., Any]) -> Callable[[Any], Any]:
    """`entry(*data)` as a function of `data`.

    When the entry takes one more required argument than `data` has items it is destination-passing: the output comes
    last, allocated here by `make_output(data)` of the board's `task.py`.
    """
    parameters = inspect.signature(entry).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)

    def call(data: Any) -> Any:
        if len(required) > len(data) + 1 or (len(positional) < len(data) and not takes_any):
            name = getattr(entry, "__name__", "the function")
            raise NoEntryError(
                f"the file defines no function {ENTRY}(data), and {name}() takes {len(required)} where the "
                f"data of this board has {len(data)} items"
            )
        if len(required) == len(data) + 1:
            output = importlib.import_module("task").make_output(data)
            entry(*data, output)
            return output
        return entry(*data)

    return call
