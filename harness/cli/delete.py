"""`harness delete ID …`: remove submissions, after asking."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from harness.cli.common import WholeNumber, json_option, print_json, say
from harness.cli.formatting import format_moment, format_time, printable_name
from harness.cli.lookup import belongs, find_submission, other_owner
from harness.cli.usage import BadValue
from harness.errors import RequestError
from harness.store import EvaluationRow, SubmissionRow, open_reader
from harness.wording import counted


class SubmissionId(WholeNumber):
    """An id alone: nothing is deleted by a tag, which may have moved."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", str(value)):
            hint = "Only ids are taken here, not tags; `harness history` lists them."
            raise BadValue(f"'{value}' is no id", param, ctx, hint=hint)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("ids", type=SubmissionId(1), metavar="ID…", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
def delete_command(ids: tuple[int, ...], yes: bool, as_json: bool) -> None:
    """Remove submissions with their evaluations, notes, tags and logs. This can't be undone.

    Rankings are made anew without them. The code goes too, unless another submission has the same.

    \b
    harness delete 12
    harness delete 12 13 --yes
    """
    chosen = tuple(dict.fromkeys(ids))
    with open_reader() as reader:
        found = [(find_submission(reader, id), reader.evaluations(id, with_rank=False)) for id in chosen]
    for submission, evaluations in found:
        say(_line(submission, evaluations))
        if owner := other_owner(submission):
            say(f"submission {submission.id} {belongs(owner)}")
    if not yes:
        if not sys.stdin.isatty():
            raise RequestError("nobody is here to confirm it", hint="Add --yes to delete without being asked.")
        count = "this submission" if len(found) == 1 else f"these {len(found)} submissions"
        owners = [owner for submission, _ in found if (owner := other_owner(submission))]
        whose = f" ({', '.join(dict.fromkeys(map(belongs, owners)))})" if owners else ""
        click.confirm(f"Delete {count} for good{whose}?", abort=True, err=True)
    from harness.store import Store

    with Store.open() as store:
        for submission, evaluations in found:
            store.delete_submission(submission.id)
            for evaluation in evaluations:
                _remove_logs(evaluation.header.log)
    if as_json:
        print_json({"deleted": list(chosen)})
    else:
        click.echo(f"deleted {', '.join(map(str, chosen))}")


def _line(submission: SubmissionRow, evaluations: list[EvaluationRow]) -> str:
    scores = [evaluation.score for evaluation in evaluations if evaluation.score is not None]
    parts = [
        str(submission.id),
        submission.leaderboard,
        submission.file_name,
        submission.user,
        format_moment(submission.created_at),
        counted(len(evaluations), "evaluation"),
    ]
    if scores:
        parts.append(f"best {format_time(min(scores, key=lambda score: score.value_ns))}")
    return printable_name("  ".join(parts))


def _remove_logs(log: str) -> None:
    """A log folder of ours, beside the store; any other place is left alone."""
    from harness.store.location import home

    folder = Path(log)
    if log and folder.parent == home() / "logs":
        shutil.rmtree(folder, ignore_errors=True)
