"""What the board's own answers look like, so that outputs can be held against them: by the reference, never by what a
worker says."""

from __future__ import annotations

from typing import Any

import torch

from harness.boards import answers
from harness.boards.forms import Aspect, differences, uncompared
from harness.boards.reference import Reference
from harness.errors import HarnessError
from harness.evaluation.contract import broken


class Expected:
    """Lives through an evaluation. A board without `ref_kernel`, or whose reference can't run here, expects nothing."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._uncompared: frozenset[Aspect] | None = None

    def answer(self, data: Any) -> Any:
        """The board's answer for a copy of `data`, or None."""
        if not self._reference.has_ref_kernel:
            return None
        try:
            return self._reference.ref_kernel(answers.clone(data))
        except (HarnessError, torch.OutOfMemoryError):
            return None

    def check_form(self, data: Any, output: Any) -> None:
        """Refuse an output that the board's check has passed, in a form that it does not look at.

        Which aspects those are is asked once, at the first and smallest case. Raises WorkerFault.
        """
        if not self._reference.has_ref_kernel or self._uncompared == frozenset():
            return
        answer = self.answer(data)
        if answer is None:
            return
        if self._uncompared is None:
            self._uncompared = uncompared(lambda other: self._admits(data, other), answer)
        for found in differences(output, answer):
            if found.aspect in self._uncompared:
                raise broken(f"the output is not of the form of the board's own answer: {found.message}")

    def _admits(self, data: Any, output: Any) -> bool:
        try:
            return self._reference.check(answers.clone(data), output)[0]
        except HarnessError:
            return False
