"""`harness note ID [TEXT]`: keep a remark on a submission, tag it, or show what is kept."""

from __future__ import annotations

import re
from typing import Any

import click

from harness.cli.common import WholeNumber, json_option, print_json, say, stdout_console
from harness.cli.formatting import format_moment, printable, printable_name
from harness.cli.lookup import belongs, find_submission, is_storable, named_submission, other_owner
from harness.cli.writing import write
from harness.errors import RequestError
from harness.store import Note, Reader, SubmissionRow, open_reader
from harness.wording import noun_for

TAG = re.compile(r"[\w.+-]{1,40}")


@click.command()
@click.argument("name", metavar="ID")
@click.argument("text", nargs=-1)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Add a tag; may be repeated.")
@click.option("--untag", "untags", multiple=True, metavar="TAG", help="Take a tag away; may be repeated.")
@click.option("--remove", type=WholeNumber(1), metavar="NOTE", help="Forget the note of this number.")
@json_option
def note_command(
    name: str, text: tuple[str, ...], tags: tuple[str, ...], untags: tuple[str, ...], remove: int | None, as_json: bool
) -> None:
    """Keep a remark on submission ID, or tag it. Without a text or tags: show what is kept.

    A tag names your submission wherever an id does, where it alone has it on its board: `harness show best`,
    `harness diff best`. Of a tag on several boards the one meant is on the board of the other operand, else on the one
    that you used last.

    \b
    harness note 12 spills at 128 columns
    harness note 12 --tag wip --tag best
    harness note best
    """
    remark = " ".join(text).strip()
    if not is_storable(remark):
        raise RequestError("the remark is not UTF-8 text, or holds a NUL", where=f"'{remark}'")
    for tag in tags:
        if tag.isdigit():
            raise RequestError(f"'{tag}' is no tag: a number is a submission's id", where="--tag")
    for tag in (*tags, *untags):
        if not TAG.fullmatch(tag):
            raise RequestError(
                f"'{printable(tag)}' is no tag", where="--tag", allowed="up to 40 letters, digits, and . _ + -"
            )
    with open_reader() as reader:
        submission = named_submission(reader, name)
        id = submission.id
        known = [note.id for note in reader.notes(id)]
        kept = reader.tags(id)
    if remove is not None and remove not in known:
        what = f"no note {remove}" if known else "no notes"
        raise RequestError(f"submission {id} has {what}", where="--remove", allowed=", ".join(map(str, known)))
    for tag in untags:
        if tag not in kept:
            what = f"no tag '{tag}'" if kept else "no tags"
            raise RequestError(f"submission {id} has {what}", where="--untag", allowed=", ".join(kept))
    if remark or tags or untags or remove is not None:
        _change(id, remark, tags, untags, remove)
        if owner := other_owner(submission):
            say(f"submission {id} {belongs(owner)}")
    with open_reader() as reader:
        notes, kept = reader.notes(id), reader.tags(id)
        shared = {tag: _others_on_its_board(reader, submission, tag) for tag in tags}
    for tag, others in shared.items():
        if others:
            which = f"{noun_for(len(others), 'submission')} {', '.join(map(str, others))}"
            verb = noun_for(len(others), "has", "have")
            say(
                f"warning: {which} on {submission.leaderboard} {verb} the tag '{tag}', too: it names none of them; "
                f"`harness note {others[0]} --untag {tag}` takes it from {others[0]}"
            )
    if as_json:
        print_json({"submission": id, "tags": kept, "notes": [note_document(note) for note in notes]})
        return
    console = stdout_console()
    write(console, f"submission {id}" + (f" · {format_tags(kept)}" if kept else ""), style="bold")
    for note in notes:
        write(console, f"{note.id}  {format_moment(note.created_at)}  {printable_name(note.text)}")
    if not notes and not kept:
        write(console, "Nothing is kept on it.")


def _others_on_its_board(reader: Reader, submission: SubmissionRow, tag: str) -> list[int]:
    """The user's other submissions on the same board that have a tag."""
    others = [find_submission(reader, id) for id in reader.tagged(submission.user, tag) if id != submission.id]
    return [other.id for other in others if other.leaderboard == submission.leaderboard]


def format_tags(tags: list[str]) -> str:
    return " ".join(f"#{printable(tag)}" for tag in tags)


def note_document(note: Note) -> dict[str, Any]:
    return {"id": note.id, "created_at": note.created_at.isoformat(), "text": note.text}


def _change(id: int, remark: str, tags: tuple[str, ...], untags: tuple[str, ...], remove: int | None) -> None:
    from harness.store import Store

    with Store.open() as store:
        if remove is not None:
            store.remove_note(id, remove)
        if tags or untags:
            store.change_tags(id, add=tags, remove=untags)
        if remark:
            store.add_note(id, remark)
