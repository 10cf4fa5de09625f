"""What can be told of a request before anything starts: that the file is Python, that a shape of the user's own fits
the board, that a GPU's name is one. Nothing of the board or of the submission is run."""

from __future__ import annotations

import ast
import warnings

from harness.boards.board import Board, Language, Spec
from harness.cli.common import say
from harness.errors import RequestError, did_you_mean

DEFAULT_SEED = 1
PUBLIC_GPUS = ("A100", "B200", "H100", "L4", "MI300", "MI300X", "MI355X", "T4")
"""Names that public boards use beside those that this harness has figures of."""


def check_text(source: str, where: str, board: Board) -> None:
    """Raise RequestError for a submission that is empty, and for a Python one that this interpreter cannot parse."""
    if not source.strip():
        raise RequestError("the file is empty", where=where)
    if board.language is not Language.PYTHON:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source.removeprefix("\ufeff"))  # which is no part of the text
    except SyntaxError as error:
        text = (error.text or "").strip()
        raise RequestError(
            f"{error.msg}{f': `{text}`' if text else ''}",
            where=f"{where}:{error.lineno or 1}",
            hint="Not valid Python.",
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise RequestError(f"this cannot be parsed as Python: {error}", where=where) from None


def fitting_spec(spec: Spec | None, board: Board, cases: tuple[int, ...]) -> Spec | None:
    """The shape that `--spec` gave, with a seed where the board wants one and none was given.

    Raises RequestError for keys that the board's `generate_input` does not take or that are missing, and beside
    `--case`.
    """
    if spec is None:
        return None
    if cases:
        raise RequestError("a shape of your own and a case of the grid exclude each other", where="--spec, --case")
    parameters = input_parameters(board)
    if parameters is None:
        return spec
    required, optional = parameters
    known = [*required, *optional]
    for key in spec:
        if key not in known:
            near = did_you_mean(key, known)
            raise RequestError(
                f"board '{board.name}' takes no '{key}'", where="--spec", allowed=", ".join(known), hint=near
            )
    full = {**spec} if "seed" in spec or "seed" not in required else {**spec, "seed": DEFAULT_SEED}
    missing = [key for key in required if key not in full]
    if missing:
        raise RequestError(
            f"{', '.join(missing)} of board '{board.name}' {'is' if len(missing) == 1 else 'are'} missing",
            where="--spec",
            allowed=", ".join(known),
            hint="Add " + " ".join(f"--spec {key}=…" for key in missing),
        )
    return full


def input_parameters(board: Board) -> tuple[list[str], list[str]] | None:
    """Names of the parameters of the board's `generate_input`, required and optional, read from its text; None where
    that does not tell (another name for it, `**kwargs`)."""
    source = next((file.source for file in board.files if file.name == "reference.py"), None)
    if source is None:
        return None
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "generate_input":
            arguments = node.args
            if arguments.kwarg is not None or arguments.vararg is not None:
                return None
            plain = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
            first_default = len(plain) - len(arguments.defaults)
            required = plain[:first_default]
            optional = plain[first_default:]
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
                (required if default is None else optional).append(argument.arg)
            return required, optional
    return None


def warn_of_other_gpus(gpus: tuple[str, ...], board: Board) -> None:
    """Say on standard error which GPUs of a header the board is not for: the service would refuse the file."""
    allowed = {gpu.casefold() for gpu in board.gpus}
    for gpu in gpus:
        if allowed and gpu.casefold() not in allowed:
            say(f"warning: '{gpu}' is not one of this board's GPUs ({', '.join(board.gpus)})")


def is_gpu_name(name: str) -> bool:
    """Whether some GPU that is known here has that name, or one that contains it."""
    return bool(name) and any(name.casefold() in known.casefold() for known in gpu_names())


def gpu_names() -> list[str]:
    from harness.measure.speed_of_light import known_devices

    return sorted({*PUBLIC_GPUS, *known_devices()})
