"""What a leaderboard is: values only, no I/O and no torch.

The public format (`task.yml`) and what is ours alone (`harness.yml`) are read by `harness.boards.loader` into these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

CaseValue = int | float | bool | str | None | tuple["CaseValue", ...]
Spec = Mapping[str, CaseValue]
"""One test case: the keyword arguments of `generate_input`. Lists arrive as tuples."""

SUBMISSION_SOURCE = "@SUBMISSION@"


class Language(StrEnum):
    """The task's language, by the public format's own words."""

    PYTHON = "py"
    CUDA = "cu"


class RankBy(StrEnum):
    """How a board's case figures make one score."""

    LAST = "last"
    MEAN = "mean"
    GEOM = "geom"


class GridName(StrEnum):
    """Which of a board's grids was run. Scores of different grids are never compared."""

    FULL = "full"
    CPU = "cpu"


@dataclass(frozen=True)
class TaskFile:
    """One entry of `files`: the name the file has beside the submission, and where its text is.

    `source` is None for the submission itself.
    """

    name: str
    source: Path | None


@dataclass(frozen=True)
class Grid:
    """The cases of one machine class."""

    name: GridName
    tests: tuple[Spec, ...]
    benchmarks: tuple[Spec, ...]


def gpus_needed(specs: Iterable[Spec]) -> int:
    """How many GPUs the largest of these cases of a multi-GPU board takes."""
    sizes = [spec["world_size"] for spec in specs if "world_size" in spec]
    return max((size for size in sizes if isinstance(size, int)), default=1)


@dataclass(frozen=True)
class CudaConfig:
    """`config` of a `lang: cu` board."""

    sources: tuple[str, ...]
    include_dirs: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()


class Precision(StrEnum):
    """The arithmetic whose peak rate bounds a kernel."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"  # bf16 has the same rate
    FP8 = "fp8"
    FP4 = "fp4"


@dataclass(frozen=True)
class Work:
    """What a case must at least do, as expressions of the case's keys (see `harness.boards.expressions`).

    `flops` counts a multiply and an add as two; `bytes_moved` counts each compulsory byte of device memory once.
    `precision` is the one that `flops` are done in. When `function` is set, that function of the board's reference
    module, called with `(data, **spec)`, returns `{"flops": …, "bytes": …}` instead: for boards whose work depends on
    the data.
    """

    flops: str = "0"
    bytes_moved: str = "0"
    precision: Precision = Precision.FP32
    function: str = ""


@dataclass(frozen=True)
class LintSettings:
    """What `harness lint` must prove beyond what it proves of every board."""

    wrong_answers: tuple[str, ...] = ()
    """Names of functions in the board's `lint.py`, each `(data, output) -> wrong output`, that must fail."""
    lowest_precision: str = ""
    """The cheapest arithmetic that the check is meant to admit, e.g. `fp16`."""


@dataclass(frozen=True)
class Settings:
    """The contents of `harness.yml`; the defaults are those of a board without one."""

    cpu_grid: Grid | None = None
    in_place: tuple[str, ...] = ()
    """Paths of inputs that a submission may write and return, e.g. `6` or `0.*.2` (`*` is any index)."""
    allow_non_finite: bool = False
    speed_of_light: Work | None = None
    floor: Work | None = None
    worker_files: tuple[str, ...] | None = None
    """Files of the task that lie beside the submission. None: all but the reference, the eval main and `lint.py`."""
    aliases: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    lint: LintSettings = LintSettings()


@dataclass(frozen=True)
class Board:
    """One leaderboard."""

    name: str
    folder: Path
    language: Language
    files: tuple[TaskFile, ...]
    description: str
    main: str
    """The eval main of the public protocol (`lang: py`), or an empty string."""
    cuda: CudaConfig | None
    full_grid: Grid
    ranking_by: RankBy
    test_timeout_s: int
    benchmark_timeout_s: int
    ranked_timeout_s: int
    gpus: tuple[str, ...]
    multi_gpu: bool
    seed: int | None
    libraries: tuple[str, ...]
    templates: Mapping[str, Path]
    deadline: datetime | None
    settings: Settings

    def grid(self, name: GridName) -> Grid:
        """The grid of that name; the full one where a board has no CPU grid."""
        if name is GridName.CPU and self.settings.cpu_grid is not None:
            return self.settings.cpu_grid
        return self.full_grid


def format_spec(spec: Spec) -> str:
    """`batch: 16; n: 32`, the public service's own way of writing a case."""
    return "; ".join(f"{key}: {format_value(value)}" for key, value in spec.items())


def format_value(value: CaseValue) -> str:
    """A case value as a person writes it: `[128, 256]` for a tuple."""
    if isinstance(value, tuple):
        return "[" + ", ".join(format_value(v) for v in value) + "]"
    return str(value)
