"""Finding and calling what the submission defines. Runs in the worker, beside the submission."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ENTRY = "custom_kernel"
POSITIONAL_ENTRIES = ("kernel", "run")
"""Entry names of kernels that take the items of `data` as positional arguments, as FlashInfer's contest has them."""


NO_ENTRY = f"the file defines no function {ENTRY}(data)"


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
    raise NoEntryError(NO_ENTRY + _renaming(_functions_of_one(module)))


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
            if len(required) == 1:
                raise NoEntryError(NO_ENTRY + _renaming([name]))
            raise NoEntryError(
                f"{NO_ENTRY}, and {name}() takes {len(required)} where the data of this board has {len(data)} items"
            )
        if len(required) == len(data) + 1:
            output = importlib.import_module("task").make_output(data)
            entry(*data, output)
            return output
        return entry(*data)

    return call


def _renaming(names: Sequence[str]) -> str:
    """What to do about it, where one function alone can have been meant."""
    return f": rename {names[0]} to {ENTRY}" if len(names) == 1 else ""


def _functions_of_one(module: ModuleType) -> list[str]:
    """The file's own functions, but for those with an underscore, that can be called with `data` alone."""
    return [
        name
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and _takes_one(function)
    ]


def _takes_one(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return len(required) == 1 and required[0].kind is not required[0].KEYWORD_ONLY
