"""The file that a command is told to write: refused before the work, where it can't be one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from harness.cli.common import FilePath
from harness.errors import RequestError
from harness.files import why_not_seen


class OutputFile(FilePath):
    """The path of a file to write, in a folder that is there. `-` is taken where the command has a use for it."""

    def __init__(self, *, dash: bool = False) -> None:
        self.dash = dash

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if os.fspath(value) == "-":
            if self.dash:
                return path
            where = "" if param is None else param.get_error_hint(ctx).strip("'").partition("'")[0]
            raise RequestError(
                "- is standard output for `harness export` alone",
                where=where,
                allowed="the path of a file",
                hint="Name a file; ./- is one called so.",
            )
        folder = path.parent
        if not os.path.isdir(folder) and not why_not_seen(folder):
            what = f"{folder} is no folder" if os.path.lexists(folder) else f"there is no folder {folder}"
            raise RequestError(what, where=str(path), hint="Make it, or name another.")
        return path
