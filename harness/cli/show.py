"""`harness show ID`: one submission, its evaluations, its logs, its code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from harness.cli.common import json_option, print_json, stdout_console
from harness.cli.document import evaluation_document
from harness.cli.formatting import format_moment, printable, printable_name
from harness.cli.lookup import named_submission
from harness.cli.note import format_tags, note_document
from harness.cli.report import render_evaluation, submission_line
from harness.cli.writing import write
from harness.store import SubmissionRow, open_reader

if TYPE_CHECKING:
    from rich.console import Console

    from harness.techniques import Finding


@click.command()
@click.argument("name", metavar="ID")
@click.option("--code/--no-code", default=True, help="Print the source too, after everything else.")
@json_option
def show_command(name: str, code: bool, as_json: bool) -> None:
    """Show one submission: cases, messages, logs, techniques, notes, code. ID is its number, or a tag of yours
    (see `harness note`).

    \b
    harness show 12
    harness show 12 --no-code
    harness show best --json
    """
    from harness.cli.compile_report import compilation_document, render_compilation
    from harness.compiling.kept import kept_compilations
    from harness.history.techniques_of import SourceTechniques
    from harness.techniques.codec import finding_document

    with open_reader() as reader:
        submission = named_submission(reader, name)
        id = submission.id
        source = reader.source(submission.sha256)
        evaluations = reader.evaluations(id)
        notes, tags = reader.notes(id), reader.tags(id)
        compilations = kept_compilations(reader, submission)
        techniques = SourceTechniques(reader).of(submission.sha256, submission.file_name) or ()
    if as_json:
        latest = evaluations[-1] if evaluations else None
        document = evaluation_document(submission, latest)
        document["created_at"] = submission.created_at.isoformat()
        document["source"] = source
        document["techniques"] = [finding_document(finding) for finding in techniques]
        document["tags"], document["notes"] = tags, [note_document(note) for note in notes]
        document["compilations"] = [compilation_document(each) for each in compilations]
        document["evaluations"] = [evaluation_document(None, each)["evaluation"] for each in evaluations]
        print_json(document)
        return
    console = stdout_console()
    if not evaluations:
        write(console, submission_line(submission), style="bold")
        write(console, f"submitted: {format_moment(submission.created_at)}", style="dim")
        console.print()
        if submission.imported:
            write(console, "imported from a parquet file, which holds no evaluation of it")
        else:
            write(
                console, f"submission {id} was not evaluated: it was stopped before its first case, or is just starting"
            )
    for number, evaluation in enumerate(evaluations):
        if number:
            console.print()
        render_evaluation(console, submission, evaluation, with_notes=True)
        if evaluation.started_at is not None:
            write(console, f"started: {format_moment(evaluation.started_at)}", style="dim")
        versions = ", ".join(f"{name} {version}" for name, version in evaluation.header.versions.items())
        if versions:
            write(console, f"versions: {printable(versions)}", style="dim")
    for compilation in compilations:
        console.print()
        render_compilation(console, compilation)
    _write_techniques(console, techniques)
    if tags or notes:
        console.print()
    if tags:
        write(console, f"tags: {format_tags(tags)}")
    for note in notes:
        write(console, f"note {note.id}: {printable_name(note.text)}")
    if code:  # last, so that `| head` says what it is and how it ended
        console.print()
        _write_code(console, submission, source)


def _write_techniques(console: Console, techniques: Sequence[Finding]) -> None:
    """What the source does, each with the lines that say so."""
    from harness.cli.writing import plain_table, print_table
    from harness.history.technique_rows import line_words, technique_name, value_words

    if not techniques:
        return
    from rich.text import Text

    table = plain_table()
    table.add_column("technique", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("where", no_wrap=True)
    for finding in techniques:
        value = Text(printable(value_words(finding, with_lines=False)))
        table.add_row(Text(printable(technique_name(finding))), value, line_words(finding.lines))
    console.print()
    print_table(console, table)


def _write_code(console: Console, submission: SubmissionRow, source: str) -> None:
    if console.is_terminal:
        from rich.syntax import Syntax

        lexer = Syntax.guess_lexer(submission.file_name, code=source)
        console.print(Syntax(printable(source), lexer, theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        click.echo(printable(source), nl=not source.endswith("\n"))
