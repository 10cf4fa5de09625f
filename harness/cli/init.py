"""`harness init BOARD`: a board's template with the right header, as a file of your own."""

from __future__ import annotations

import importlib.util
import os
import shlex
from pathlib import Path

import click

from harness.boards.board import Board, Language
from harness.boards.directives import EXTENSIONS, MARKERS, parse_directives
from harness.boards.find import find_board
from harness.cli.common import FilePath, json_option, print_json, say, stdout_console
from harness.cli.formatting import printable_name
from harness.cli.lookup import name_to_type
from harness.errors import HarnessError, RequestError, did_you_mean
from harness.files import unwritable, write_in_place_of, write_new

TEMPLATE_OF = {
    "torch": "Python",
    "python": "Python",
    "triton": "Triton",
    "cuda": "CUDA",
    "hip": "HIP",
    "cutedsl": "CuteDSL",
    "cute": "CuteDSL",
}
"""What people call a language, and the name that the public format gives its template."""

PACKAGES = {"Triton": ("triton", "triton"), "CuteDSL": ("cutlass", "dsl")}
"""The module that a template imports, and the extra of this package that brings it."""

SKELETON = '''{task}
def custom_kernel(data{hint}:
    """See `harness boards {board}` for what data holds and what to return."""
    raise NotImplementedError
'''


@click.command()
@click.argument("board")
@click.option(
    "--dsl", help="The template's language: torch, triton, cuda, cutedsl, … (default: torch, if there is one)."
)
@click.option("--gpu", help="The GPU to name in the header (default: the template's, else the board's first).")
@click.option("-o", "--output", type=FilePath(), help="The file to write (default: BOARD.py, here).")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@json_option
def init_command(board: str, dsl: str | None, gpu: str | None, output: Path | None, force: bool, as_json: bool) -> None:
    """Write a file to start from, with the header that sends it to BOARD.

    \b
    harness init vectoradd
    harness init cholesky --dsl triton -o fast.py
    """
    target = find_board(board)
    name = name_to_type(target, board)
    template = choose_template(target, dsl)
    text = target.templates[template].read_text("utf-8") if template else _skeleton(target, name)
    text = with_header(text, target, gpu)
    path = _output_path(target, template, output)
    try:
        (write_in_place_of if force else write_new)(path, text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise RequestError("the GPU's name is not UTF-8 text", where="--gpu") from error
    except FileExistsError as error:
        raise RequestError(
            "the file is there already", where=str(path), hint="--force overwrites it; -o FILE writes another."
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    _remark_what_is_missing(template)
    if as_json:
        header = parse_directives(text, path.name)
        print_json(
            {
                "file": str(path),
                "leaderboard": header.leaderboard,
                "gpus": list(header.gpus),
                "template": template or None,
            }
        )
        return
    console = stdout_console()
    origin = f"{template} template" if template else "the board has no template"
    console.print(f"wrote {printable_name(str(path))} ({origin})", markup=False)
    shown = shlex.quote(printable_name(str(path)))
    where = "" if name == target.name else f" --leaderboard {shlex.quote(name)}"
    for command, purpose in (("run", "checks it"), ("submit", "measures and records it")):
        # Never wrapped: they are to be copied. Whether it ranks is for the machine to say that measures it.
        console.print(f"`harness {command} {shown}{where}` {purpose}", markup=False, soft_wrap=True)


def _remark_what_is_missing(template: str) -> None:
    """A word on standard error where the template's language can't be imported here."""
    if template not in PACKAGES or importlib.util.find_spec(PACKAGES[template][0]) is not None:
        return
    from harness.doctor.advice import install_extra

    module, extra = PACKAGES[template]
    say(f"note: {module} is not installed here: {install_extra(extra)}")


def choose_template(board: Board, dsl: str | None) -> str:
    """The name of the template that `dsl` means, or an empty string where the board has none and none was asked for."""
    names = list(board.templates)
    if dsl is None:
        return next((name for name in ("Python", "CUDA") if name in names), names[0] if names else "")
    wanted = TEMPLATE_OF.get(dsl.lower(), dsl).lower()
    for name in names:
        if name.lower() == wanted:
            return name
    spoken = {template: word for word, template in reversed(TEMPLATE_OF.items())}
    allowed = [spoken.get(name, name.lower()) for name in names]
    raise RequestError(
        f"board '{board.name}' has no template for '{dsl}'",
        where="--dsl",
        allowed=", ".join(allowed) or "none: leave --dsl out",
        hint=did_you_mean(dsl.lower(), allowed),
    )


def with_header(text: str, board: Board, gpu: str | None) -> str:
    """`text` with the directives of its own first lines replaced by those for `board`, after a shebang if it has one.

    The GPU is `gpu`, else the template's own, else the board's first, else none is named.
    """
    try:
        own = parse_directives(text, "template").gpus
    except HarnessError:
        own = ()
    gpus = (gpu,) if gpu else own[:1] or board.gpus[:1]
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    shebang = [lines.pop(0)] if lines and lines[0].startswith("#!/") else []
    lines = _without_directives(lines)
    marker = MARKERS[board.language is Language.CUDA]
    header = [f"{marker} leaderboard {board.name}\n"] + [f"{marker} gpu {name}\n" for name in gpus]
    is_comment = bool(lines) and lines[0].startswith(("#", "//", '"""'))
    return "".join([*shebang, *header, *([] if is_comment else ["\n"]), *lines])


def _without_directives(lines: list[str]) -> list[str]:
    """The lines without the directives of their first block of comments, and without blank lines before the rest."""
    first_other = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.startswith(("#", "//"))), len(lines)
    )
    kept = [line for line in lines[:first_other] if not line.startswith(MARKERS)] + lines[first_other:]
    start = next((i for i, line in enumerate(kept) if line.strip()), len(kept))
    return kept[start:]


def _skeleton(board: Board, name: str) -> str:
    if board.language is Language.CUDA:
        return f"// Define what the board's header declares; `harness boards {name}` shows its files.\n"
    typed = any(file.name == "task.py" for file in board.files)
    return SKELETON.format(
        task="from task import input_t, output_t\n\n" if typed else "",
        hint=": input_t) -> output_t" if typed else ")",
        board=name,
    )


def _output_path(board: Board, template: str, output: Path | None) -> Path:
    extensions = EXTENSIONS[board.language]
    own = next(Path(file.name).suffix for file in board.files if file.source is None)
    suffix = own if own in extensions else extensions[0]
    if output is None:
        return Path(board.name + suffix)
    if os.path.isdir(output):
        return output / (board.name + suffix)
    if not output.name.endswith(extensions):
        raise RequestError(
            f"wrong extension for this board: '{output.suffix}'", where=str(output), allowed=", ".join(extensions)
        )
    return output
