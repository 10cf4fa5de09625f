"""The command `harness`: finds the subcommand, runs it, and turns every error into one text and an exit status.

Subcommands are imported when they are called, so that `harness --help` and the torch-free commands start at once.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from harness import __version__
from harness.cli import streams, usage
from harness.cli.common import error_document, print_json, say
from harness.errors import ExitStatus, HarnessError, MachineError, RequestError, did_you_mean, disk_fault

# name -> (module, one line of help). The module's function of the same name, with `_command` added, is the command.
COMMANDS: dict[str, tuple[str, str]] = {
    "boards": ("harness.cli.boards", "List the leaderboards, or load and show a problem folder."),
    "init": ("harness.cli.init", "Write a starting file with the right header."),
    "submit": ("harness.cli.submit", "Check, measure, record and rank a kernel file."),
    "run": ("harness.cli.run", "The same as submit, recorded nowhere."),
    "leaderboard": ("harness.cli.leaderboard", "Show a board's ranking."),
    "history": ("harness.cli.history", "Show your submissions, their scores and what changed."),
    "show": ("harness.cli.show", "Show one submission: code, cases, evidence, logs."),
    "diff": ("harness.cli.diff", "Show what changed between two submissions, in code and figures."),
    "compare": ("harness.cli.compare", "Measure two files or submissions against each other, now."),
    "note": ("harness.cli.note", "Keep a remark on a submission, or tag it."),
    "restore": ("harness.cli.restore", "Write a submission's code back to a file."),
    "delete": ("harness.cli.delete", "Remove a submission."),
    "compile": ("harness.cli.compile", "Say what every kernel costs on a GPU that is not here."),
    "export": ("harness.cli.export", "Write the store to a file, as JSON lines or parquet."),
    "import": ("harness.cli.import_", "Read submissions from a file: published ones, or another store's."),
    "lint": ("harness.cli.lint", "Prove that a board is sound."),
    "calibrate": ("harness.cli.calibrate", "Measure this device: peaks, launch cost, noise between runs."),
    "doctor": ("harness.cli.doctor", "Say what this machine can do, what is missing and how to get it."),
}


INTERRUPTED = 130
"""Exit status after the user's interrupt, as shells have it."""


class LazyGroup(click.Group):
    """A group that imports a subcommand's module only when that subcommand is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], list(COMMANDS)) or "harness --help lists them."
            raise usage.Misuse(f"no command '{args[0]}'", ctx, where=args[0], allowed=", ".join(COMMANDS), hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
@click.option("--debug", is_flag=True, help="Show our own traceback when something goes wrong.")
def cli(debug: bool) -> None:
    """Submit a GPU kernel, prove it right, measure it, rank it, and see what changed.

    \b
    harness boards                          what can be solved
    harness init vectoradd                  a file to start from
    harness submit vectoradd.py             check, measure, record, rank
    harness diff                            your last two submissions: code, figures, techniques

    Exit status: 0 passed; 1 the submission failed; 2 the request was wrong; 3 this machine can't do it.
    """
    from harness.cli.common import warn_of_missing_folders

    try:
        os.getcwd()
    except OSError as error:  # torch, for one, ends the process where there is none
        raise RequestError(
            f"the current folder can't be used: {error.strerror}", where=".", hint="Go to another with `cd`."
        ) from error
    warn_of_missing_folders()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status. No traceback of ours reaches a user unless `--debug` is given."""
    streams.prepare()
    _look_for_garbage_seldom()
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug, as_json = "--debug" in arguments, "--json" in arguments
    try:
        status = cli.main(args=arguments, prog_name="harness", standalone_mode=False)
    except click.ClickException as error:
        say(usage.told(error))
        _end(ExitStatus.BAD_REQUEST, error if as_json else None)
    except (click.Abort, KeyboardInterrupt):
        say("harness: stopped by the user")
        _end(INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        told = error if isinstance(error, HarnessError) else disk_fault(error)
        if told is not None:
            say(f"harness: {told}")
            _end(told.exit_status, told if as_json else None)
        say(
            f"harness: internal error: {type(error).__name__}: {error}\n"
            "This is a fault of harness, not of your file. `harness --debug …` shows where; please report it."
        )
        _end(ExitStatus.MACHINE_CANNOT, error if as_json else None)
    _end(status if isinstance(status, int) else ExitStatus.PASSED)


def _look_for_garbage_seldom() -> None:
    """What a command imports stays. To look through torch for garbage while it is imported and once more at the end
    takes as long as a third of its import."""
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


def _end(status: int, error: Exception | None = None) -> NoReturn:
    """Exit; a script that asked for JSON gets the document of the error instead of a result."""
    if error is not None:
        with suppress(MachineError):  # standard output takes nothing, which may be the very error
            print_json(error_document(error))
    sys.exit(status)


if __name__ == "__main__":
    main()
