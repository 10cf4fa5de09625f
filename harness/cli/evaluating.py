"""What `submit` and `run` share: their options, and the plan that is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.boards.board import Board, GridName
from harness.boards.directives import parse_directives, read_submission
from harness.boards.find import find_board
from harness.cli.common import FilePath, Number, WholeNumber, say
from harness.cli.device import hold_devices
from harness.cli.preflight import check_text, fitting_spec, gpu_names, is_gpu_name, warn_of_other_gpus
from harness.errors import MachineError, RequestError, did_you_mean
from harness.evaluation.claim import Claim
from harness.evaluation.plan import Plan
from harness.evaluation.record import IsolationLevel, Mode, Protocol

F = TypeVar("F", bound=Callable[..., Any])
_claims: list[Claim] = []
"""This process's hold on its devices, kept until it ends."""
PROTOCOLS = {"sealed": Protocol.SEALED, "popcorn": Protocol.POPCORN}


def evaluation_options(default_mode: Mode) -> Callable[[F], F]:
    """Add the options that decide what is run and how."""
    options = [
        click.argument("file", type=FilePath()),
        click.option("--leaderboard", metavar="BOARD", help="Board name or folder; else the file's #!POPCORN line."),
        click.option("--gpu", metavar="NAME", help="The device to insist on, e.g. H200. Default: the one at hand."),
        click.option(
            "--mode",
            type=click.Choice([mode.value for mode in Mode]),
            default=default_mode.value,
            show_default=True,
            help="test: the tests grid. benchmark: correctness and time. leaderboard: both, on secret seeds, ranked.",
        ),
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            default="sealed",
            show_default=True,
            help="sealed: our own clock and checks. popcorn: the board's eval main, as the hosted service runs it.",
        ),
        click.option("--on", "place", default="local", show_default=True, metavar="PLACE", help="Where it runs."),
        click.option(
            "--case", "cases", type=WholeNumber(0), multiple=True, metavar="N", help="Only this case; may be repeated."
        ),
        click.option(
            "--grid", type=click.Choice([g.value for g in GridName]), help="Default: full with a GPU, else cpu."
        ),
        click.option("--fail-fast", is_flag=True, help="Stop at the first case that does not pass."),
        click.option(
            "--timeout",
            "call_timeout_s",
            type=Number(0.1),
            metavar="S",
            help="Most seconds a call may take.",
        ),
        click.option(
            "--isolation",
            type=click.Choice([level.value for level in IsolationLevel if level is not IsolationLevel.UNKNOWN]),
            help="What separates the submission from this machine. Default: the strongest there is.",
        ),
    ]

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True)
class Request:
    """A command line, resolved: the board, the text, the plan."""

    board: Board
    source: str
    gpus: tuple[str, ...]
    plan: Plan


def resolve(options: dict[str, Any], *, spec: Any = None, seed: int | None = None) -> Request:
    """Find the board and make the plan. Raises RequestError; warnings of the header go to standard error."""
    file: Path = options["file"]
    source = read_submission(file)
    directives = parse_directives(source, file.name)
    for warning in directives.warnings:
        say(f"warning: {warning}")
    board = _board(options["leaderboard"], directives.leaderboard, file)
    read_submission(file, board.language)  # the extension must be the board's language's
    check_text(source, str(file), board)
    warn_of_other_gpus(directives.gpus, board)
    spec = fitting_spec(spec, board, options["cases"])
    if options["place"] != "local":
        raise RequestError(f"cannot run on '{options['place']}'", where="--on", allowed="local")
    if options["gpu"] is not None and not options["gpu"].strip():
        raise RequestError(
            f"'{options['gpu']}' is no GPU's name",
            where="--gpu",
            allowed="e.g. H200, B200",
            hint="Leave --gpu out to run on the device at hand.",
        )
    plan = Plan(
        board=board,
        source=source,
        file_name=file.name,
        mode=Mode(options["mode"]),
        grid=GridName(options["grid"]) if options["grid"] else None,
        protocol=PROTOCOLS[options["protocol"]],
        only=tuple(dict.fromkeys(options["cases"])),
        spec=spec,
        seed=seed,
        fail_fast=options["fail_fast"],
        isolation=IsolationLevel(options["isolation"]) if options["isolation"] else None,
        call_timeout_s=options["call_timeout_s"],
    )
    _claims.extend(hold_devices(plan))
    _check_gpu(options["gpu"], directives.gpus)
    return Request(board, source, directives.gpus, plan)


def _board(option: str | None, header: str | None, file: Path) -> Board:
    if option is None and header is None:
        raise RequestError(
            "no leaderboard is named",
            where=str(file),
            hint="Begin the file with `#!POPCORN leaderboard NAME`, or add --leaderboard NAME (`harness boards`).",
        )
    board = find_board(option if option is not None else str(header))
    if option is not None and header is not None and header.casefold() not in _names(board):
        raise RequestError(
            f"the file is for leaderboard '{header}', the command line says '{option}'",
            where=f"{file}, --leaderboard",
            hint="Change one of them, or leave --leaderboard out.",
        )
    return board


def _names(board: Board) -> set[str]:
    return {name.casefold() for name in (board.name, board.folder.name, *board.settings.aliases)}


def _check_gpu(asked: str | None, header: tuple[str, ...]) -> None:
    """Only an explicit --gpu that can't be met is an error; the header says where the author wants to run."""
    from harness.evaluation import machine

    device = machine.device()
    if asked is not None and asked.casefold() not in device.name.casefold():
        if not is_gpu_name(asked):
            near = did_you_mean(asked, gpu_names())
            raise RequestError(f"no GPU is known as '{asked}'", where="--gpu", allowed="e.g. H200, B200", hint=near)
        raise MachineError(
            f"this machine has no {asked}; its device is {device.name}",
            where="--gpu",
            hint="Leave --gpu out to run on the device at hand.",
        )
    if asked is None and header and not any(gpu.casefold() in device.name.casefold() for gpu in header):
        say(f"note: the file asks for {', '.join(header)}; this run is on {device.name}")


def evaluation_for(plan: Plan, logs: Path) -> Any:
    """The evaluation of a plan, by its protocol: an object with `header()` and `events()`."""
    if plan.protocol is Protocol.POPCORN:
        from harness.popcorn import PopcornEvaluation

        return PopcornEvaluation(plan, logs)
    from harness.evaluation.evaluate import Evaluation, check_runs_here

    check_runs_here(plan)
    return Evaluation(plan, logs)
