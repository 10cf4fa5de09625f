"""`task.yml`, the public format of a problem folder, read into the values of `harness.boards.board`.

The public loader's rules, with two liberties: a missing description is an empty one, and keys that it does not know
are kept aside (`unknown_keys`) for `harness lint`, not refused.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.boards.board import (
    SUBMISSION_SOURCE,
    CaseValue,
    CudaConfig,
    Language,
    RankBy,
    Spec,
    TaskFile,
)
from harness.boards.yaml_file import Fields, read_yaml

FILE_NAME = "task.yml"
PUBLIC_KEYS = (
    "files",
    "lang",
    "description",
    "config",
    "templates",
    "tests",
    "benchmarks",
    "ranking_by",
    "test_timeout",
    "benchmark_timeout",
    "ranked_timeout",
    "gpus",
    "multi_gpu",
    "seed",
    "libraries",
    "validation",
)
"""What the public loader takes; it refuses a file with any other key."""
PUBLIC_CONFIG_KEYS = {
    Language.PYTHON: ("main",),
    Language.CUDA: ("sources", "include_dirs", "defines", "compile_flags"),
}
PUBLIC_TEMPLATE_NAMES = ("CUDA", "Python", "Triton", "HIP", "CuteDSL")
DEFAULT_TIMEOUT_S = 180

MAX_LIST_VALUES = 10_000
MAX_LIST_DEPTH = 8


@dataclass(frozen=True)
class TaskYml:
    """The contents of one `task.yml`."""

    path: Path
    files: tuple[TaskFile, ...]
    language: Language
    description: str
    main: str
    cuda: CudaConfig | None
    templates: Mapping[str, Path]
    tests: tuple[Spec, ...]
    benchmarks: tuple[Spec, ...]
    ranking_by: RankBy
    ranking_stated: bool
    """Whether the file itself says `ranking_by`."""
    test_timeout_s: int
    benchmark_timeout_s: int
    ranked_timeout_s: int
    gpus: tuple[str, ...]
    multi_gpu: bool
    seed: int | None
    libraries: tuple[str, ...]
    unknown_keys: tuple[str, ...]
    """Keys that the public loader would refuse, such as `config.foo`."""


def read_task_yml(path: Path) -> TaskYml:
    """Read one `task.yml` and make sure that every file it names can be read.

    Raises RequestError naming file and key.
    """
    fields = read_yaml(path)
    language = fields.choice("lang", Language)
    files = _files(fields, path.parent)
    names = [file.name for file in files]
    config = fields.fields("config")
    multi_gpu = fields.flag("multi_gpu")
    tests = read_cases(fields, "tests", multi_gpu=multi_gpu)
    benchmarks = read_cases(fields, "benchmarks", multi_gpu=multi_gpu)
    ranking_by = fields.choice("ranking_by", RankBy, RankBy.LAST)
    if "ranking_by" in fields and ranking_by is RankBy.LAST and len(benchmarks) > 1:
        raise fields.error(
            f"`last` makes the score of one benchmark, but there are {len(benchmarks)}",
            "ranking_by",
            allowed="mean, geom",
        )
    return TaskYml(
        path=path,
        files=files,
        language=language,
        description=fields.text("description", ""),
        main=_main(config, names) if language is Language.PYTHON else "",
        cuda=_cuda(config, names) if language is Language.CUDA else None,
        templates=_templates(fields, path.parent),
        tests=tests,
        benchmarks=benchmarks,
        ranking_by=ranking_by,
        ranking_stated="ranking_by" in fields,
        test_timeout_s=fields.seconds("test_timeout", DEFAULT_TIMEOUT_S),
        benchmark_timeout_s=fields.seconds("benchmark_timeout", DEFAULT_TIMEOUT_S),
        ranked_timeout_s=fields.seconds("ranked_timeout", DEFAULT_TIMEOUT_S),
        gpus=fields.texts("gpus"),
        multi_gpu=multi_gpu,
        seed=fields.number("seed", None),
        libraries=fields.texts("libraries"),
        unknown_keys=(
            *fields.unknown(PUBLIC_KEYS),
            *(config.at(key) for key in config.unknown(PUBLIC_CONFIG_KEYS[language])),
        ),
    )


def _files(fields: Fields, folder: Path) -> tuple[TaskFile, ...]:
    if "files" not in fields:
        raise fields.error("the key is missing", "files", allowed='a list of {"name": …, "source": …}')
    files: list[TaskFile] = []
    for entry in fields.list_of_fields("files"):
        name = entry.text("name")
        source = entry.text("source")
        pure = PurePosixPath(name)
        if not name or pure.is_absolute() or ".." in pure.parts or pure == PurePosixPath("."):
            raise entry.error(f"'{name}' does not lie beside the submission", "name", allowed="a relative path")
        if name in (file.name for file in files):
            raise entry.error(f"the name '{name}' is given twice", "name")
        if source == SUBMISSION_SOURCE:
            files.append(TaskFile(name, None))
        else:
            files.append(TaskFile(name, _readable(entry, "source", folder, source)))
    if all(file.source is not None for file in files):
        raise fields.error(
            "no file is the submission",
            "files",
            hint=f'Add {{"name": "submission.py", "source": "{SUBMISSION_SOURCE}"}}.',
        )
    return tuple(files)


def _readable(fields: Fields, key: str, folder: Path, source: str) -> Path:
    """The absolute path of a source that the file names, once its text could be read."""
    try:
        path = (folder / source).resolve()
        path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise fields.error(f"'{source}' is no UTF-8 text", key) from error
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, a loop of links
        why = error.strerror if isinstance(error, OSError) else error
        raise fields.error(
            f"'{source}' can't be read: {why}", key, hint=f"It is looked for from {folder}." if source else ""
        ) from error
    return path


def _main(config: Fields, names: list[str]) -> str:
    main = config.text("main")
    if main not in names:
        raise config.error(f"'{main}' is not one of the files", "main", allowed=", ".join(names))
    return main


def _cuda(config: Fields, names: list[str]) -> CudaConfig:
    sources = config.texts("sources")
    if not sources:
        raise config.error("the key is missing", "sources", allowed="a list of file names")
    for i, source in enumerate(sources):
        if source not in names:
            raise config.error(f"'{source}' is not one of the files", f"sources[{i}]", allowed=", ".join(names))
    defines = config.fields("defines", {})
    for key, value in defines.values.items():
        if not isinstance(value, str | int | float):
            raise defines.error("text or a number is needed", key)
    return CudaConfig(
        sources=sources,
        include_dirs=config.texts("include_dirs"),
        defines={key: str(value) for key, value in defines.values.items()},
        compile_flags=config.texts("compile_flags"),
    )


def _templates(fields: Fields, folder: Path) -> dict[str, Path]:
    templates = fields.fields("templates", {})
    return {name: _readable(templates, name, folder, templates.text(name)) for name in templates.values}


def read_cases(fields: Fields, key: str, *, multi_gpu: bool = False) -> tuple[Spec, ...]:
    """The cases under `key`: mappings of a keyword argument's name to its value, lists made tuples."""
    cases = []
    for row in fields.list_of_fields(key):
        for name in row.values:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise row.error(f"'{name}' can't be an argument of generate_input", name)
        if multi_gpu:
            world_size = row.number("world_size")
            if world_size is None or world_size < 1:
                raise row.error(f"{world_size} GPUs", "world_size", allowed="at least 1")
        cases.append({name: case_value(row, name, value) for name, value in row.values.items()})
    return tuple(cases)


def case_value(row: Fields, key: str, value: Any) -> CaseValue:
    """One value of a case: number, text, boolean, empty, or a list of those, which becomes a tuple."""
    budget = [MAX_LIST_VALUES]

    def convert(item: Any, depth: int) -> CaseValue:
        budget[0] -= 1
        if depth > MAX_LIST_DEPTH or budget[0] < 0:
            raise row.error(f"a list of more than {MAX_LIST_VALUES} values or {MAX_LIST_DEPTH} levels", key)
        if isinstance(item, float) and not math.isfinite(item):
            raise row.error(f"{item} is not a finite number", key)
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, list | tuple):
            return tuple(convert(inner, depth + 1) for inner in item)
        raise row.error(
            f"a {type(item).__name__} can't be a case's value",
            key,
            allowed="number, text, boolean, list",
            hint="Write a date in quotes." if hasattr(item, "year") else "",
        )

    return convert(value, 0)
