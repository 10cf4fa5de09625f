"""`harness submit`: check, measure, record and rank a kernel file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from harness.cli.common import json_option, print_json, say, stdout_console, user_option
from harness.cli.evaluating import evaluation_for, evaluation_options, resolve
from harness.cli.log_folders import log_folder
from harness.cli.watching import watch
from harness.errors import ExitStatus
from harness.evaluation.record import Mode, Status


@click.command("submit")
@evaluation_options(Mode.LEADERBOARD)
@user_option
@json_option
def submit_command(user: str, as_json: bool, **options: Any) -> int:
    """Check, measure, record and rank FILE.

    \b
    harness submit cholesky.py
    harness submit cholesky.py --mode test --fail-fast
    harness submit cholesky.py --case 3 --case 4 --json

    Exit status: 0 passed; 1 the submission failed or was rejected; 2 the request was wrong; 3 this machine can't do it.
    """
    from harness.cli.report import evaluation_document, render_evaluation
    from harness.history.techniques_of import keep_techniques
    from harness.store import Store, open_reader

    request = resolve(options)
    evaluation = evaluation_for(request.plan, log_folder(kept=True))
    ids: dict[str, int] = {}
    with Store.open() as store, _saying_what_stays(ids):
        ids["submission"] = store.add_submission(
            request.board.name, user, request.plan.file_name, request.source, request.gpus
        )
        keep_techniques(store, request.source, request.plan.file_name)
        run = watch(
            evaluation,
            on_header=lambda header: ids.update(evaluation=store.begin_evaluation(ids["submission"], header)),
            on_case=lambda case: store.add_case(ids["evaluation"], case),
            on_outcome=lambda outcome: store.finish_evaluation(ids["evaluation"], outcome),
        )
    with open_reader() as reader:
        submission = reader.submission(ids["submission"])
        recorded = reader.evaluation(ids["evaluation"])
    assert recorded is not None  # it was just written
    if as_json:
        print_json(evaluation_document(submission, recorded))
    else:
        render_evaluation(stdout_console(), submission, recorded, told=run.told)
    return ExitStatus.PASSED if run.outcome.status is Status.PASSED else ExitStatus.FAILED


@contextmanager
def _saying_what_stays(ids: dict[str, int]) -> Iterator[None]:
    """When the user stops it: that what finished is kept, and where."""
    try:
        yield
    except KeyboardInterrupt:
        if "evaluation" in ids:
            say(f"the cases that finished are kept: harness show {ids['submission']}")
        raise
