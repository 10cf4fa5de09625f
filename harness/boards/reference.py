"""A board's own code: inputs, checks, the work a case must do. The one module of this package that imports torch.

A board is code that its owner trusts; it runs in the calling process. Each `Reference` keeps its board's modules
(`reference`, `task`, `utils`, …) to itself, so that two boards with modules of the same name never mix.
"""

from __future__ import annotations

import inspect
import random
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from harness.boards import expressions
from harness.boards.board import Board, Language, Spec, Work, format_spec
from harness.boards.isolation import OwnModules
from harness.boards.task_files import write_task_files
from harness.errors import MachineError, RequestError
from harness.scratch import Scratch

__all__ = ["BoardCodeError", "Reference", "write_task_files"]

MODULE = "reference"
"""The module that every public eval main imports `generate_input` and `check_implementation` from."""


class BoardCodeError(RequestError):
    """A board's own code raised, or returned what it may not. `traceback` is its traceback, as text."""

    traceback: str = ""


class Reference:
    """The functions of one board's `reference.py`. Make one with `Reference.load`."""

    def __init__(self, board: Board) -> None:
        self.board = board
        scratch = Scratch.make("harness-board-")
        weakref.finalize(self, scratch.remove)
        self.folder = scratch.path
        """Where the board's files lie under the task's own names; removed with this object."""
        self._modules = OwnModules(self.folder, [file.name for file in board.files])
        self._lint_module: ModuleType | None = None

    @classmethod
    def load(cls, board: Board) -> Reference:
        """Import the board's `reference.py`.

        Raises RequestError where the board has none, or its code fails; MachineError where a module is missing here or
        the code demands a GPU that is not here.
        """
        if board.language is not Language.PYTHON:
            raise RequestError(
                f"board '{board.name}' is a CUDA board; its reference is compiled with the submission",
                hint="Run it by the public protocol: --protocol popcorn.",
            )
        if f"{MODULE}.py" not in [file.name for file in board.files]:
            raise RequestError(
                f"board '{board.name}' has no {MODULE}.py among its files",
                where=str(board.folder / "task.yml"),
                hint="It can only run by its own eval main: --protocol popcorn.",
            )
        reference = cls(board)
        write_task_files(board, reference.folder)
        with reference._running(f"import of {MODULE}.py", None):
            reference.module = reference._modules.load(MODULE)
        for name in ("generate_input", "check_implementation"):
            reference._function(name)
        return reference

    module: ModuleType

    def generate(self, spec: Spec, seed: int | None = None) -> Any:
        """The input of a case, as `generate_input(**spec)` returns it.

        `seed` replaces the case's own where the case or `generate_input` has that key; otherwise it seeds torch's and
        Python's global generators before the call.
        """
        generate_input = self._function("generate_input")
        arguments = dict(spec)
        with self._running("generate_input", spec):
            if seed is not None:
                if "seed" in arguments or "seed" in inspect.signature(generate_input).parameters:
                    arguments["seed"] = seed
                else:
                    torch.manual_seed(seed)
                    random.seed(seed)
            return generate_input(**arguments)

    def check(self, data: Any, output: Any, spec: Spec | None = None) -> tuple[bool, str]:
        """Whether `output` is right for `data`, and a message: what is wrong, or a remark such as the residual.

        The public forms of `check_implementation` count alike: `(ok, message)`, a message or a list of them, empty
        for right. `spec` is used in error messages alone, here and below.
        """
        return self._verdict("check_implementation", spec, data, output)

    @property
    def has_vary(self) -> bool:
        return callable(getattr(self.module, "vary_input", None))

    def vary(self, data: Any, seed: int, spec: Spec | None = None) -> Any:
        """A fresh input of the same cost and structure as `data`, by the board's `vary_input`."""
        function = self._function("vary_input")
        with self._running("vary_input", spec):
            return function(data, seed)

    def fresh(self, data: Any, spec: Spec, seed: int) -> Any:
        """Another input of the case that `data` is one of: varied where the board can do that, else generated anew."""
        return self.vary(data, seed, spec) if self.has_vary else self.generate(spec, seed)

    @property
    def has_spot_check(self) -> bool:
        return callable(getattr(self.module, "spot_check", None))

    def spot_check(self, data: Any, output: Any, seed: int, spec: Spec | None = None) -> tuple[bool, str]:
        """The board's cheap, unpredictable check; `seed` must be unknown to the submission."""
        return self._verdict("spot_check", spec, data, output, seed)

    @property
    def has_ref_kernel(self) -> bool:
        return callable(getattr(self.module, "ref_kernel", None))

    def ref_kernel(self, data: Any, spec: Spec | None = None) -> Any:
        """The board's own answer for `data`."""
        function = self._function("ref_kernel")
        with self._running("ref_kernel", spec):
            return function(data)

    def load_kernel(self, path: Path) -> Callable[[Any, Spec | None], Any]:
        """`custom_kernel` of a trusted submission, such as a shipped baseline, run with the board's modules."""
        with self._running(f"import of {path.name}", None):
            module = self._modules.load("submission", path)
        kernel = getattr(module, "custom_kernel", None)
        if not callable(kernel):
            raise RequestError("the file defines no custom_kernel", where=str(path))

        def call(data: Any, spec: Spec | None = None) -> Any:
            with self._running(f"custom_kernel of {path.name}", spec):
                return kernel(data)

        return call

    def work(self, work: Work, data: Any, spec: Spec) -> tuple[float, float]:
        """What the case must at least do: (flops, bytes of device memory moved).

        Keys that the case leaves to `generate_input`'s defaults have these defaults in expressions.
        """
        if work.function:
            counted = self._counted(work.function, data, spec)
        else:
            full = self.full_spec(spec)
            counted = (expressions.evaluate(work.flops, full), expressions.evaluate(work.bytes_moved, full))
        for what, value in zip(("flops", "bytes"), counted, strict=True):
            if not 0 <= value < float("inf"):
                raise RequestError(
                    f"{what} of case ({format_spec(spec)}) are {value}",
                    where=f"board '{self.board.name}'",
                    allowed="a finite number, zero or more",
                )
        return counted

    def full_spec(self, spec: Spec) -> Spec:
        """The case with `generate_input`'s own defaults for the keys that it leaves out."""
        full: dict[str, Any] = {}
        for name, parameter in inspect.signature(self._function("generate_input")).parameters.items():
            if isinstance(parameter.default, int | float | bool | str | tuple):
                full[name] = parameter.default
        return {**full, **spec}

    def lint_function(self, name: str) -> Callable[[Any, Any], Any]:
        """The function `name` of the board's `lint.py`, `(data, output) -> wrong output`."""
        path = self.board.folder / "lint.py"
        if self._lint_module is None:
            if not path.is_file():
                raise RequestError("the file is missing; harness.yml lists wrong answers from it", where=str(path))
            with self._running("import of lint.py", None):
                # The file stays in the board's folder: unlike the task's files it never lies beside a submission.
                self._lint_module = self._modules.load("lint", path)
        function = getattr(self._lint_module, name, None)
        if not callable(function):
            raise RequestError(f"there is no function '{name}'; harness.yml lists it", where=str(path))

        def call(data: Any, output: Any) -> Any:
            with self._running(f"lint.py's {name}", None):
                return function(data, output)

        return call

    def _function(self, name: str) -> Callable[..., Any]:
        function = getattr(self.module, name, None)
        if not callable(function):
            raise RequestError(
                f"board '{self.board.name}' defines no {name}",
                where=str(self.board.folder / f"{MODULE}.py"),
                hint="A board without it can only run by its own eval main: --protocol popcorn.",
            )
        return function

    def _verdict(self, name: str, spec: Spec | None, *arguments: Any) -> tuple[bool, str]:
        function = self._function(name)
        with self._running(name, spec):
            result = function(*arguments)
            if isinstance(result, tuple) and len(result) == 2 and not isinstance(result[0], str):
                return bool(result[0]), _text(result[1])
        if isinstance(result, str) or (isinstance(result, list | tuple) and all(isinstance(r, str) for r in result)):
            message = _text(result)
            return not message, message
        raise BoardCodeError(
            f"{name} of board '{self.board.name}' returned {result!r:.80}",
            where=str(self.board.folder / f"{MODULE}.py"),
            allowed="(ok, message), or a message that is empty for right",
        )

    def _counted(self, name: str, data: Any, spec: Spec) -> tuple[float, float]:
        function = self._function(name)
        with self._running(name, spec):
            counted = function(data, **spec)
            if isinstance(counted, Mapping) and set(counted) == {"flops", "bytes"}:
                return float(counted["flops"]), float(counted["bytes"])
        raise BoardCodeError(
            f"{name} of board '{self.board.name}' returned {counted!r:.80}",
            where=str(self.board.folder / f"{MODULE}.py"),
            allowed='{"flops": …, "bytes": …}',
        )

    @contextmanager
    def _running(self, function: str, spec: Spec | None) -> Iterator[None]:
        """Within, the board's code runs with its own modules; what it raises leaves as an error of ours."""
        try:
            with self._modules.importable():
                yield
        except (RequestError, MachineError):
            raise
        except (Exception, SystemExit) as error:
            raise self._explained(error, function, spec) from error

    def _explained(self, error: BaseException, function: str, spec: Spec | None) -> RequestError | MachineError:
        """The board's exception as an error of ours: the board's fault, or this machine's."""
        case = f", case ({format_spec(spec)})" if spec is not None else ""
        where = f"board '{self.board.name}', {function}{case}"
        message = str(error).strip().split("\n")[0] or type(error).__name__
        if isinstance(error, ModuleNotFoundError):
            return MachineError(
                f"the module '{error.name}' is missing on this machine",
                where=where,
                hint="Install it in this environment; if it belongs to the board, list it under `files`.",
            )
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return MachineError(
                f"out of memory: {message}", where=where, hint="Leave the case out, or use the CPU grid."
            )
        if not torch.cuda.is_available() and _demands_cuda(error):
            return MachineError(
                f"the board's code demands a CUDA device, and there is none here: {message}",
                where=where,
                hint="Run it on a machine with an NVIDIA GPU.",
            )
        explained = BoardCodeError(
            f"the board's code raised {type(error).__name__}: {message}", where=where, hint=self._raised_at(error)
        )
        explained.traceback = "".join(traceback.format_exception(error))
        return explained

    def _raised_at(self, error: BaseException) -> str:
        """The innermost line of the board's own files."""
        folders = (self.folder, self.board.folder)
        own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent in folders]
        return f"Raised at {Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}" if own else ""


def _text(message: Any) -> str:
    if isinstance(message, list | tuple):
        return "\n".join(str(part) for part in message if str(part))
    return "" if message is None else str(message)


def _demands_cuda(error: BaseException) -> bool:
    """Whether an exception on a machine without a GPU comes of code that wants one."""
    message = str(error)
    known = ("CUDA", "NVIDIA", "nvidia", "No HIP GPUs", "'cuda'", "cuda:", "nvcc")
    return isinstance(error, AssertionError | RuntimeError | OSError | ValueError | NotImplementedError) and any(
        word in message for word in known
    )
