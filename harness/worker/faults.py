"""How an exception of the submission is told to the supervisor: its kind, one line, and its traceback from the
submission's first frame on. What the supervisor makes of it is the supervisor's own decision."""

from __future__ import annotations

import traceback
from typing import Any

import torch

from harness.wire.packing import PackingError
from harness.worker.entry import NoEntryError
from harness.worker.output import ContractError

MAX_TRACEBACK_CHARS = 200_000
OWN_FOLDERS = ("/harness/worker/", "/harness/wire/", "/harness/cuda/", "<frozen importlib", "/importlib/__init__.py")


def describe(error: BaseException) -> dict[str, Any]:
    """`{"kind", "message", "traceback"}`; `kind` is a value of ReasonCode."""
    return {"error": {"kind": kind_of(error), "message": message_of(error), "traceback": traceback_of(error)}}


def kind_of(error: BaseException) -> str:
    if isinstance(error, NoEntryError):
        return "no_entry"
    if isinstance(error, ContractError | PackingError):
        return "contract"
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return "out_of_memory"
    text = str(error)
    if isinstance(error, getattr(torch, "AcceleratorError", ())) or "CUDA error" in text or "CUDA driver error" in text:
        return "out_of_memory" if "out of memory" in text else "cuda_error"
    return "exception"


def message_of(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    first = text[0] if text else ""
    if isinstance(error, ContractError | PackingError | NoEntryError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """The traceback without our own frames; its end is kept when it is too long, since the end says what happened."""
    if isinstance(error, ContractError | PackingError | NoEntryError):
        return ""  # it was raised by us: the message says all
    told = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    part: traceback.TracebackException | None = told
    while part is not None and id(part) not in seen:  # causes and contexts too
        seen.add(id(part))
        kept = [f for f in part.stack if not any(own in f.filename for own in OWN_FOLDERS)]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or part.__context__
    text = "".join(told.format())
    return text if len(text) <= MAX_TRACEBACK_CHARS else "…" + text[-MAX_TRACEBACK_CHARS:]
