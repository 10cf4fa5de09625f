"""`harness restore ID`: write a submission's code back to a file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness.cli.common import json_option, print_json
from harness.cli.formatting import printable_name
from harness.cli.lookup import named_submission
from harness.cli.output_file import OutputFile
from harness.errors import RequestError
from harness.files import unwritable, write_in_place_of, write_new
from harness.store import SubmissionRow, open_reader


@click.command()
@click.argument("name", metavar="ID")
@click.option("--to", "target", type=OutputFile(), metavar="FILE", help="Default: its name, here.")
@click.option("--force", is_flag=True, help="Overwrite a file that holds something else.")
@json_option
def restore_command(name: str, target: Path | None, force: bool, as_json: bool) -> None:
    """Write the code of submission ID back to a file, byte for byte. ID is its number, or a tag of yours (see
    `harness note`).

    \b
    harness restore 12
    harness restore best
    harness restore 12 --to old.py
    """
    with open_reader() as reader:
        submission = named_submission(reader, name)
        source = reader.source(submission.sha256)
    path = _path(submission, target)
    content = source.encode("utf-8")
    written = _write(path, content, force=force)
    if as_json:
        print_json({"submission": submission.id, "file": str(path), "sha256": submission.sha256, "written": written})
    else:
        click.echo(f"{'wrote' if written else 'unchanged:'} {printable_name(str(path))}")


def _path(submission: SubmissionRow, target: Path | None) -> Path:
    """Where to write. A recorded name is somebody else's text: only its last part counts."""
    name = submission.file_name.replace("\\", "/").rpartition("/")[2]
    if target is not None and not os.path.isdir(target):
        return target
    if name in ("", ".", "..") or printable_name(name) != name:
        raise RequestError(
            f"submission {submission.id} has no usable file name ({printable_name(submission.file_name)!r})",
            hint="Say where to write it with --to FILE.",
        )
    return Path(name) if target is None else target / name


def _write(path: Path, content: bytes, *, force: bool) -> bool:
    """Whether the file was written; False when it holds just that already. A pipe or a device is written to."""
    if os.path.isdir(path):
        raise RequestError("is a folder", where=str(path), hint="Name a file with --to FILE.")
    try:
        if os.path.isfile(path) and path.read_bytes() == content:
            return False
        if not os.path.lexists(path):
            write_new(path, content)  # another process may have made it meanwhile
            return True
        if not force and (os.path.isfile(path) or not os.path.exists(path)):
            raise RequestError(
                "the file exists and holds something else",
                where=str(path),
                hint="Write elsewhere with --to FILE, or overwrite it with --force.",
            )
        write_in_place_of(path, content)
        return True
    except OSError as error:
        raise unwritable(path, error) from error
