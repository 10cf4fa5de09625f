"""`harness run`: the same as submit, recorded nowhere; also for a shape of your own."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import click

from harness.boards.board import CaseValue, Spec
from harness.cli.common import WholeNumber, json_option, print_json, stdout_console
from harness.cli.evaluating import evaluation_for, evaluation_options, resolve
from harness.cli.log_folders import run_logs
from harness.cli.watching import watch
from harness.errors import ExitStatus, RequestError
from harness.evaluation.printed import printed_logs
from harness.evaluation.record import Mode, Protocol, Status


@click.command("run")
@evaluation_options(Mode.TEST)
@click.option(
    "--spec", "spec_words", multiple=True, metavar="K=V", help="A shape of your own, e.g. --spec n=100 --spec batch=3."
)
@click.option("--seed", type=WholeNumber(), help="Root of every seed; the same root gives the same inputs again.")
@json_option
def run_command(spec_words: tuple[str, ...], seed: int | None, as_json: bool, **options: Any) -> int:
    """Check and measure FILE, recording nothing.

    \b
    harness run cholesky.py                          the tests
    harness run cholesky.py --mode benchmark --case 2
    harness run cholesky.py --spec batch=3 --spec n=100 --spec cond=2 --spec seed=1

    Exit status as for submit.
    """
    from harness.cli.report import evaluation_document, render_evaluation
    from harness.store.rows import EvaluationRow

    request = resolve(options, spec=parse_spec(spec_words), seed=seed)
    with run_logs() as logs:
        run = watch(evaluation_for(request.plan, logs.folder))
        # The popcorn protocol does not tell what the submission printed from what the board's main did.
        silent = run.outcome.status is Status.PASSED and request.plan.protocol is Protocol.SEALED
        logs.wanted = not silent or bool(printed_logs(run.cases))
    header = run.header if logs.wanted else replace(run.header, log="")
    row = EvaluationRow.unrecorded(header, run.outcome, run.cases)
    if as_json:
        print_json(evaluation_document(None, row))
    else:
        render_evaluation(stdout_console(), None, row, told=run.told)
    return ExitStatus.PASSED if run.outcome.status is Status.PASSED else ExitStatus.FAILED


def parse_spec(words: tuple[str, ...]) -> Spec | None:
    """`("n=100", "case=dense")` as a case; values are Python literals, anything else is a string. None for no words.

    One word may hold several pairs separated by spaces, commas inside brackets belong to lists.
    """
    spec: dict[str, CaseValue] = {}
    for word in (part for whole in words for part in whole.split()):
        key, equals, text = word.partition("=")
        if not equals or not key.isidentifier() or not text:
            raise RequestError(
                f"'{word}' is not KEY=VALUE", where="--spec", allowed="e.g. n=100, case=dense, m=[96,128]"
            )
        if key in spec:
            raise RequestError(f"'{key}' is given twice", where="--spec")
        spec[key] = _value(text)
    return spec or None


def _value(text: str) -> CaseValue:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return _tupled(value, text)


def _tupled(value: Any, text: str) -> CaseValue:
    if isinstance(value, list | tuple):
        return tuple(_tupled(item, text) for item in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return text
