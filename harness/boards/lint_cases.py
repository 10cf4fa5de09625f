"""The part of `harness lint` that runs a board's code, case by case, on the device that the board chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch

from harness.boards import answers
from harness.boards.answers import Answer
from harness.boards.board import Spec, format_spec
from harness.boards.find import baseline_file
from harness.boards.forms import differs, in_other_forms
from harness.boards.lint import CaseReport, Code, Findings, Severity, Tell, check_work
from harness.boards.lint_inputs import check_inputs
from harness.boards.reference import BoardCodeError, Reference
from harness.errors import RequestError
from harness.wire.packing import PackingError, tensor_leaves

SPOT_SEEDS = (1, 2, 3)
"""A spot check must refuse a wrong answer, and admit the right one, for each of these."""
VARY_SEEDS = (731_000_001, 731_000_002)
"""Far from the seeds that cases name: a vary_input may draw as generate_input does."""

Kernel = Callable[[Any, Spec], Any]


def check_cases(
    reference: Reference, cases: Sequence[tuple[str, Spec]], findings: Findings, tell: Tell
) -> list[CaseReport]:
    """Run every case; a case whose code fails is a finding, and the next one runs."""
    kernel = _right_kernel(reference, findings)
    reports = []
    for done, (name, spec) in enumerate(cases):
        tell(f"{reference.board.name} {name}", done, len(cases))
        case = f"{name} ({format_spec(spec)})"
        try:
            report = _CaseLint(reference, kernel, spec, case, findings).run()
        except PackingError as error:
            findings.add(
                Code.NOT_PLAIN_DATA,
                f"{error}; such a board runs by the popcorn protocol only",
                severity=Severity.NOTE,
            )
            continue
        except BoardCodeError as error:
            findings.add(Code.BOARD_CODE, f"{error.where}: {error.what}", case=case, hint=error.hint)
            continue
        if report is not None:
            reports.append(report)
    tell(f"{reference.board.name}", len(cases), len(cases))
    return reports


def _right_kernel(reference: Reference, findings: Findings) -> Kernel | None:
    """The board's own right answer: `ref_kernel`, else the first baseline's `custom_kernel`."""
    if reference.has_ref_kernel:
        return reference.ref_kernel
    for name in reference.board.settings.baselines:
        path = baseline_file(reference.board, name)
        if path is not None:
            return reference.load_kernel(path)
    findings.add(
        Code.NO_RIGHT_ANSWER,
        "the board has no ref_kernel and no baseline, so no answer is known to be right",
        hint="Define ref_kernel(data) in reference.py, or list a baseline in harness.yml.",
    )
    return None


class _CaseLint:
    """One case: its data, its right answer, and everything that must hold of them."""

    def __init__(self, reference: Reference, kernel: Kernel | None, spec: Spec, case: str, findings: Findings) -> None:
        self.reference = reference
        self.board = reference.board
        self.kernel = kernel
        self.spec = spec
        self.case = case
        self.findings = findings
        self.refused = 0

    def add(self, code: Code, message: str, *, severity: Severity = Severity.ERROR, hint: str = "") -> None:
        self.findings.add(code, message, severity=severity, case=self.case, hint=hint)

    def run(self) -> CaseReport | None:
        data = self.reference.generate(self.spec)
        list(tensor_leaves(data))  # PackingError where the data are not plain
        check_inputs(self.reference, self.spec, data, self.case, self.findings)
        check_work(self.board, lambda work: self.reference.work(work, data, self.spec), self.case, self.findings)
        if self.kernel is None:
            return None
        given = answers.clone(data)
        right = answers.clone(self.kernel(given, self.spec))
        self.check_unchanged(data, given, "the reference", severity=Severity.WARNING)
        if not self.reference.has_ref_kernel and answers.holds_classes(right):
            self.add(
                Code.OUTPUT_CLASS,
                "the answer is of named tuples or dataclasses, and without a ref_kernel their classes are not known",
                hint="Define ref_kernel(data) in reference.py: a submission's answer gets the classes of its answer.",
            )
        passed, message = self.asked(data, right)
        if not passed:
            self.add(
                Code.REFERENCE_FAILS,
                f"the check refuses the board's own answer: {message or 'no message'}",
                hint="A message that check_implementation returns as text means wrong; right is an empty one.",
            )
            return None
        self.check_wrong_answers(data, right)
        self.check_forms(data, right)
        lowest = self.check_precision(data, right)
        self.check_vary(data, right)
        if self.reference.has_spot_check:
            self.check_spot_admits(data, right)
        return CaseReport(self.case, lowest, self.refused)

    def asked(self, data: Any, output: Any) -> tuple[bool, str]:
        """The check's verdict on `output`, which is handed over with a copy of the data."""
        given = answers.clone(data)
        verdict = self.reference.check(given, output, self.spec)
        self.check_unchanged(data, given, "check_implementation")
        return verdict

    def check_unchanged(self, data: Any, given: Any, who: str, *, severity: Severity = Severity.ERROR) -> None:
        for path in answers.differing_paths(data, given):
            self.add(
                Code.INPUT_CHANGED,
                f"{who} changes the input {path or 'data'}",
                severity=severity,
                hint="Give it memory of its own: an input that holds the answer lets an idle kernel pass.",
            )

    # What the check lets through

    def check_wrong_answers(self, data: Any, right: Any) -> None:
        """Ask about every wrong answer, one at a time: at the largest cases one is gigabytes."""
        for answer in self.wrong_answers(data, right):
            if self.passes(data, answer):
                self.add(
                    Code.WRONG_ANSWER_PASSES,
                    f"a wrong answer passes: {answer.name}",
                    hint="Tighten the check, or the inputs: no answer that did not do the work may pass.",
                )
                continue
            self.refused += 1
            if self.reference.has_spot_check:
                self.check_spot_refuses(data, answer)

    def wrong_answers(self, data: Any, right: Any) -> Iterator[Answer]:
        yield from answers.general_wrong_answers(answers.clone(data), right)
        for name in self.board.settings.lint.wrong_answers:
            function = self.reference.lint_function(name)
            yield Answer(name, function(answers.clone(data), answers.clone(right)))

    def passes(self, data: Any, answer: Answer) -> bool:
        """Whether the check admits an answer. A check that raises does not admit it, and that is said."""
        given, output = answers.clone(data), answer.output
        if answer.of_input:  # the very tensors that the check is given as data
            given, output = self.same_memory(given, output)
        try:
            return self.reference.check(given, output, self.spec)[0]
        except BoardCodeError as error:
            self.add(
                Code.CHECK_RAISES,
                f"the check raises on a wrong answer ({answer.name}): {error.what}",
                severity=Severity.WARNING,
                hint="Return (False, what is wrong): a message says more than an exception.",
            )
            return False

    @staticmethod
    def same_memory(given: Any, output: Any) -> tuple[Any, Any]:
        """The output remade of `given`'s own tensors: those of the same content."""
        pool = [tensor for _, tensor in tensor_leaves(given)]

        def own(tensor: torch.Tensor) -> torch.Tensor:
            return next((p for p in pool if p.stride() == tensor.stride() and answers.same_bits(p, tensor)), tensor)

        return given, answers.map_tensors(own, output)

    def check_forms(self, data: Any, right: Any) -> None:
        """The right values in another dtype or shape."""
        others = {torch.float32: torch.float16, torch.float16: torch.float32, torch.bfloat16: torch.float32}

        def cast(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(others.get(tensor.dtype, tensor.dtype))

        forms = [
            ("another dtype", answers.map_tensors(cast, right)),
            ("another shape", answers.map_tensors(lambda tensor: answers.clone(tensor).unsqueeze(0), right)),
        ]
        others_too = [
            (what, output) for aspect, what, output in in_other_forms(right) if differs(aspect, output, right)
        ]
        for what, output in (*forms, *others_too):
            if answers.form_differences(output, right) and self.passes(data, Answer(what, output)):
                self.add(
                    Code.WRONG_FORM_PASSES,
                    f"the right values in {what} pass",
                    severity=Severity.WARNING,
                    hint="Compare items, dtype, shape and device before any value; a run refuses what is not compared.",
                )

    def check_precision(self, data: Any, right: Any) -> str:
        """The lowest precision that passes, as the output rounded, or as the reference of rounded inputs."""
        own = answers.own_precision(right)
        declared = self.board.settings.lint.lowest_precision
        lowest = own
        for precision in answers.PRECISIONS[answers.PRECISIONS.index(own) + 1 :] if own else ():
            for how, output in self.rounded(data, right, precision):
                if answers.differs_in_bits(output, right) and self.passes(data, Answer(f"{precision} {how}", output)):
                    lowest = precision
                    if declared and answers.PRECISIONS.index(precision) > answers.PRECISIONS.index(declared):
                        self.add(
                            Code.PRECISION_TOO_LOW,
                            f"{how} {precision} passes; harness.yml declares {declared} as the lowest",
                            hint="Tighten the tolerance, or declare what is admitted.",
                        )
        return lowest

    def rounded(self, data: Any, right: Any, precision: str) -> list[tuple[str, Any]]:
        assert self.kernel is not None
        low = answers.round_through(data, precision)
        candidates = [("the output rounded to", answers.round_through(right, precision))]
        if answers.differing_paths(low, data):
            with suppress(RequestError):  # a rounded input may be none: a matrix no longer positive definite
                candidates.append(("the answer for inputs rounded to", answers.clone(self.kernel(low, self.spec))))
        return [(how, output) for how, output in candidates if not answers.form_differences(output, right)]

    # What stands in for a fresh input and for the full check

    def check_vary(self, data: Any, right: Any) -> None:
        if not self.reference.has_vary:
            return
        assert self.kernel is not None
        given = answers.clone(data)
        varied = answers.clone(self.reference.vary(given, VARY_SEEDS[0], self.spec))
        self.check_unchanged(data, given, "vary_input")
        for path in answers.form_differences(varied, data):
            self.add(Code.VARY_FORM, f"vary_input changes dtype, shape, strides or device of {path or 'data'}")
        differing = answers.differing_paths(varied, data)
        for path, _ in tensor_leaves(data):
            if path not in differing:
                self.add(
                    Code.VARY_KEEPS,
                    f"vary_input leaves {path or 'data'} as it was",
                    hint="Renew every tensor: what is kept can be decoded once and cached.",
                )
        again = self.reference.vary(answers.clone(data), VARY_SEEDS[0], self.spec)
        if answers.differing_paths(varied, again):
            self.add(Code.NOT_DETERMINISTIC, "vary_input makes another input from the same data and seed")
        other = self.reference.vary(answers.clone(data), VARY_SEEDS[1], self.spec)
        if not answers.differing_paths(varied, other):
            self.add(Code.SEED_IGNORED, "vary_input makes the same input from another seed")
        answer = answers.clone(self.kernel(answers.clone(varied), self.spec))
        passed, message = self.asked(varied, answer)
        if not passed:
            self.add(Code.VARY_WRONG, f"the reference's answer for a varied input fails: {message}")
        elif answers.differs(answer, right) and self.passes(varied, Answer("the answer before vary_input", right)):
            self.add(Code.VARY_KEEPS, "the answer for the input before vary_input passes after it")
        elif not answers.differs(answer, right):
            self.add(Code.VARY_KEEPS, "a varied input has the same answer", hint="Vary what the answer depends on.")

    def check_spot_admits(self, data: Any, right: Any) -> None:
        for seed in SPOT_SEEDS:
            passed, message = self.reference.spot_check(answers.clone(data), answers.clone(right), seed, self.spec)
            if not passed:
                self.add(Code.SPOT_CHECK_REFUSES, f"spot_check refuses the right answer: {message}")

    def check_spot_refuses(self, data: Any, answer: Answer) -> None:
        """`answer` is one that the full check refuses."""
        try:
            verdicts = [
                self.reference.spot_check(answers.clone(data), answers.clone(answer.output), seed, self.spec)[0]
                for seed in SPOT_SEEDS
            ]
        except BoardCodeError as error:
            self.add(
                Code.CHECK_RAISES,
                f"spot_check raises on a wrong answer ({answer.name}): {error.what}",
                severity=Severity.WARNING,
            )
            return
        if any(verdicts):
            self.add(
                Code.SPOT_CHECK_PASSES,
                f"spot_check passes a wrong answer that the full check refuses: {answer.name} "
                f"({sum(verdicts)} of {len(verdicts)} seeds)",
            )
