"""`harness.yml`, what is ours alone about a board, read into `Settings`. Strict: an unknown key is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.boards import expressions
from harness.boards.board import Grid, GridName, LintSettings, Precision, Settings, Work
from harness.boards.names import check_name
from harness.boards.task_yml import read_cases
from harness.boards.yaml_file import Fields, read_yaml
from harness.errors import HarnessError, did_you_mean

FILE_NAME = "harness.yml"
KEYS = (
    "grids",
    "in_place",
    "allow_non_finite",
    "speed_of_light",
    "floor",
    "worker_files",
    "aliases",
    "baselines",
    "lint",
)
LINT_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
"""What `lint.lowest_precision` may name, from the most to the least accurate."""

_IN_PLACE = re.compile(r"(\d+|\*|[A-Za-z_]\w*)(\.(\d+|\*|[A-Za-z_]\w*))*")


def read_harness_yml(path: Path, file_names: Sequence[str], *, multi_gpu: bool = False) -> Settings:
    """Read one `harness.yml`; `file_names` are the names that `task.yml` gives its files.

    Raises RequestError naming file and key.
    """
    fields = read_yaml(path)
    fields.refuse_unknown(KEYS)
    return Settings(
        cpu_grid=_cpu_grid(fields, multi_gpu),
        in_place=_in_place(fields),
        allow_non_finite=fields.flag("allow_non_finite"),
        speed_of_light=_work(fields, "speed_of_light"),
        floor=_work(fields, "floor"),
        worker_files=_worker_files(fields, file_names),
        aliases=tuple(
            check_name(name, fields.error, f"aliases[{i}]") for i, name in enumerate(fields.texts("aliases"))
        ),
        baselines=_baselines(fields),
        lint=_lint(fields),
    )


def _cpu_grid(fields: Fields, multi_gpu: bool) -> Grid | None:
    grids = fields.fields("grids", {})
    grids.refuse_unknown([GridName.CPU])
    if GridName.CPU not in grids:
        return None
    cpu = grids.fields(GridName.CPU)
    cpu.refuse_unknown(["tests", "benchmarks"])
    grid = Grid(
        GridName.CPU,
        tests=read_cases(cpu, "tests", multi_gpu=multi_gpu),
        benchmarks=read_cases(cpu, "benchmarks", multi_gpu=multi_gpu),
    )
    for key, cases in (("tests", grid.tests), ("benchmarks", grid.benchmarks)):
        if not cases:
            raise cpu.error("the CPU grid has none", key, allowed="a list of at least one case")
    return grid


def _in_place(fields: Fields) -> tuple[str, ...]:
    """Paths into the data; a bare number such as `6` counts as its text."""
    paths = []
    for i, item in enumerate(fields.items("in_place")):
        text = str(item) if isinstance(item, str) or type(item) is int else ""
        if not _IN_PLACE.fullmatch(text):
            raise fields.error(
                f"{item!r} is no path into the data",
                f"in_place[{i}]",
                allowed='indices, keys or * joined by dots, in quotes, e.g. "6" or "0.*.2"',
            )
        paths.append(text)
    return tuple(paths)


def _work(fields: Fields, key: str) -> Work | None:
    if key not in fields:
        return None
    work = fields.fields(key)
    work.refuse_unknown(["flops", "bytes", "precision", "function"])
    if "function" in work:
        for other in ("flops", "bytes"):
            if other in work:
                raise work.error("`function` gives flops and bytes already", other)
        function = work.text("function")
        if not function.isidentifier():
            raise work.error(f"'{function}' is no name of a function in reference.py", "function")
        return Work(precision=_precision(work), function=function)
    if "flops" not in work and "bytes" not in work:
        raise work.error("nothing is counted", allowed="flops and bytes (expressions), or function")
    return Work(_expression(work, "flops"), _expression(work, "bytes"), _precision(work))


def _expression(work: Fields, key: str) -> str:
    value = work.values.get(key)
    expression = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else work.text(key, "0")
    try:
        expressions.check_syntax(expression)
    except HarnessError as error:
        raise work.error(f"{error.where}: {error.what}", key, allowed=error.allowed, hint=error.hint) from error
    return expression


def _precision(work: Fields) -> Precision:
    if work.values.get("precision") == "bf16":
        return Precision.FP16  # the same rate on every device that has both
    return work.choice("precision", Precision, Precision.FP32)


def _worker_files(fields: Fields, file_names: Sequence[str]) -> tuple[str, ...] | None:
    if "worker_files" not in fields:
        return None
    names = fields.texts("worker_files")
    for i, name in enumerate(names):
        if name not in file_names:
            raise fields.error(
                f"'{name}' is not one of the task's files",
                f"worker_files[{i}]",
                allowed=", ".join(file_names),
                hint=did_you_mean(name, list(file_names)),
            )
    return names


def _baselines(fields: Fields) -> tuple[str, ...]:
    names = fields.texts("baselines")
    for i, name in enumerate(names):
        if "/" in name or "\\" in name or name.startswith("."):
            raise fields.error(
                f"'{name}' is not a plain file name", f"baselines[{i}]", allowed="files of the board's folder"
            )
    return names


def _lint(fields: Fields) -> LintSettings:
    lint = fields.fields("lint", {})
    lint.refuse_unknown(["wrong_answers", "lowest_precision"])
    for i, name in enumerate(lint.texts("wrong_answers")):
        if not name.isidentifier():
            raise lint.error(f"'{name}' is no name of a function in lint.py", f"wrong_answers[{i}]")
    lowest = lint.text("lowest_precision", "")
    if lowest and lowest not in LINT_PRECISIONS:
        raise lint.error(f"'{lowest}' is unknown", "lowest_precision", allowed=", ".join(LINT_PRECISIONS))
    return LintSettings(lint.texts("wrong_answers"), lowest)
