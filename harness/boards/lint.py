"""`harness lint`: is a board sound? What it finds, and what can be told without running the board's code.

Importing this module imports no torch; `lint_board` does, through `harness.boards.lint_cases`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.boards.board import Board, Grid, GridName, Language, Spec, Work, format_spec
from harness.boards.find import baseline_file, baseline_folders
from harness.boards.loader import require_rankable
from harness.boards.task_yml import FILE_NAME, PUBLIC_TEMPLATE_NAMES, read_task_yml
from harness.errors import HarnessError, MachineError, RequestError


class Severity(StrEnum):
    ERROR = "error"  # the board is not sound
    WARNING = "warning"  # it can be used; a reader should know
    NOTE = "note"  # something that could not be told here


class Code(StrEnum):
    """The stable names of findings; docs/boards.md says what each means."""

    UNKNOWN_KEY = "unknown_key"
    DESCRIPTION_MISSING = "description_missing"
    TEMPLATE_NAME = "template_name"
    NUMBER_AS_TEXT = "number_as_text"
    RANKING = "ranking"
    NO_CASES = "no_cases"
    NO_CPU_GRID = "no_cpu_grid"
    BASELINE_MISSING = "baseline_missing"
    WORK = "work"
    FLOOR_ABOVE_SPEED_OF_LIGHT = "floor_above_speed_of_light"
    DESCRIPTION_TUPLE = "description_tuple"
    DESCRIPTION_FORM = "description_form"
    IN_PLACE_PATH = "in_place_path"
    BOARD_CODE = "board_code"
    MACHINE = "machine"
    NOT_PLAIN_DATA = "not_plain_data"
    NO_RIGHT_ANSWER = "no_right_answer"
    OUTPUT_CLASS = "output_class"
    REFERENCE_FAILS = "reference_fails"
    WRONG_ANSWER_PASSES = "wrong_answer_passes"
    WRONG_FORM_PASSES = "wrong_form_passes"
    CHECK_RAISES = "check_raises"
    INPUT_CHANGED = "input_changed"
    NOT_DETERMINISTIC = "not_deterministic"
    SEED_IGNORED = "seed_ignored"
    PRECISION_TOO_LOW = "precision_too_low"
    VARY_KEEPS = "vary_keeps"
    VARY_FORM = "vary_form"
    VARY_WRONG = "vary_wrong"
    SPOT_CHECK_REFUSES = "spot_check_refuses"
    SPOT_CHECK_PASSES = "spot_check_passes"


@dataclass(frozen=True)
class Finding:
    """One thing to know. `case` is the case as people write it, or empty; `hint` says what to do."""

    code: Code
    severity: Severity
    message: str
    case: str = ""
    hint: str = ""


@dataclass(frozen=True)
class CaseReport:
    """What one case let through. `lowest_precision` is empty where the output has no floating-point tensor."""

    case: str
    lowest_precision: str
    refused: int
    """Wrong answers that the check refused."""


@dataclass(frozen=True)
class LintReport:
    board: str
    grid: GridName
    cases: tuple[CaseReport, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def sound(self) -> bool:
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass
class Findings:
    """Collects findings; the same code and message over many cases is kept once a case."""

    items: list[Finding] = field(default_factory=list)

    def add(
        self, code: Code, message: str, *, severity: Severity = Severity.ERROR, case: str = "", hint: str = ""
    ) -> None:
        finding = Finding(code, severity, message, case, hint)
        if finding not in self.items:
            self.items.append(finding)


Tell = Callable[[str, int, int], None]
"""Progress: a text, cases done, cases in all."""


def cases_of(grid: Grid) -> list[tuple[str, Spec]]:
    """Every distinct case of a grid with its name, `test 3` or `benchmark 0`."""
    named = [(f"test {i}", spec) for i, spec in enumerate(grid.tests)]
    named += [(f"benchmark {i}", spec) for i, spec in enumerate(grid.benchmarks)]
    distinct: list[tuple[str, Spec]] = []
    for name, spec in named:
        if spec not in [known for _, known in distinct]:
            distinct.append((name, spec))
    return distinct


def lint_board(board: Board, *, full: bool = False, tell: Tell = lambda text, done, total: None) -> LintReport:
    """All that can be said of a board on this machine, over its CPU grid, or with `full` its full grid.

    A board whose code cannot run here gets a `machine` error in its report; nothing is raised for a fault of the board.
    """
    grid = board.full_grid if full else board.grid(GridName.CPU)
    findings = Findings()
    check_files(board, findings)
    check_grids(board, findings)
    if board.language is Language.CUDA or board.multi_gpu:
        kind = "CUDA" if board.language is Language.CUDA else "multi-GPU"
        findings.add(Code.MACHINE, f"a {kind} board's code runs by the popcorn protocol only", severity=Severity.NOTE)
        return LintReport(board.name, grid.name, (), tuple(findings.items))
    cases: Sequence[CaseReport] = ()
    try:
        from harness.boards.lint_cases import check_cases
        from harness.boards.reference import Reference

        cases = check_cases(Reference.load(board), cases_of(grid), findings, tell)
    except MachineError as error:
        findings.add(Code.MACHINE, f"{error.where}: {error.what}", hint=error.hint)
    except RequestError as error:
        findings.add(Code.BOARD_CODE, f"{error.where}: {error.what}" if error.where else error.what, hint=error.hint)
    return LintReport(board.name, grid.name, tuple(cases), tuple(findings.items))


def check_files(board: Board, findings: Findings) -> None:
    """What the hosted service's own loader would refuse, and files that are named and missing."""
    task = read_task_yml(board.folder / FILE_NAME)
    for key in task.unknown_keys:
        findings.add(
            Code.UNKNOWN_KEY,
            f"task.yml: the public loader refuses the key '{key}'",
            hint="Put what is yours alone into harness.yml.",
        )
    if not task.description.strip():
        findings.add(
            Code.DESCRIPTION_MISSING,
            "task.yml: there is no description",
            hint="Say what is computed, and what data holds on a line `data = (a, b, …)`.",
        )
    for name in task.templates:
        if name not in PUBLIC_TEMPLATE_NAMES:
            findings.add(
                Code.TEMPLATE_NAME,
                f"task.yml: the public loader refuses a template for '{name}'",
                hint=f"Name it one of {', '.join(PUBLIC_TEMPLATE_NAMES)}.",
            )
    for name in board.settings.baselines:
        if baseline_file(board, name) is None:
            looked = " nor in ".join(map(str, baseline_folders(board)))
            findings.add(
                Code.BASELINE_MISSING,
                f"harness.yml: the baseline '{name}' is neither in {looked}",
                hint="Put the file into the board's folder, or take the name out.",
            )


def check_grids(board: Board, findings: Findings) -> None:
    """Cases, ranking rule, and the work that expressions count for each case."""
    grids = [board.full_grid] + ([board.settings.cpu_grid] if board.settings.cpu_grid else [])
    if board.settings.cpu_grid is None:
        findings.add(
            Code.NO_CPU_GRID,
            "there is no CPU grid: a machine without a GPU runs the full one",
            severity=Severity.WARNING,
            hint="Add `grids: {cpu: {tests: […], benchmarks: […]}}` to harness.yml.",
        )
    for grid in grids:
        if not grid.tests:
            findings.add(Code.NO_CASES, f"the {grid.name} grid has no tests", hint="Add cases under `tests`.")
        try:
            require_rankable(board, grid)
        except RequestError as error:
            code = Code.RANKING if grid.benchmarks else Code.NO_CASES
            findings.add(code, error.what, hint=error.hint)
        for name, spec in cases_of(grid):
            _check_values(f"{name} ({format_spec(spec)})", spec, findings)


def _check_values(case: str, spec: Spec, findings: Findings) -> None:
    for key, value in spec.items():
        if isinstance(value, str) and _is_number(value):
            findings.add(
                Code.NUMBER_AS_TEXT,
                f"'{key}' is the text '{value}', not a number",
                severity=Severity.WARNING,
                case=case,
                hint="YAML reads 1e-5 as text; write 1.0e-5.",
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower().strip("+-") not in ("nan", "inf", "infinity")


def check_work(board: Board, count: Callable[[Work], tuple[float, float]], case: str, findings: Findings) -> None:
    """Speed of light and floor of one case; `count` gives (flops, bytes) of a `Work`."""
    counted: dict[str, tuple[float, float]] = {}
    for key, work in (("speed_of_light", board.settings.speed_of_light), ("floor", board.settings.floor)):
        if work is None:
            continue
        try:
            counted[key] = count(work)
        except HarnessError as error:
            findings.add(Code.WORK, f"{key}: {error.where}: {error.what}", case=case, hint=error.hint)
            continue
        if counted[key] == (0.0, 0.0):
            findings.add(Code.WORK, f"{key}: no flops and no bytes", case=case, hint="Count at least the bytes.")
    if len(counted) < 2:
        return
    for what, light, floor in zip(("flops", "bytes"), counted["speed_of_light"], counted["floor"], strict=True):
        if floor > light * (1 + 1e-9):
            findings.add(
                Code.FLOOR_ABOVE_SPEED_OF_LIGHT,
                f"the floor counts {floor:g} {what}, the speed of light only {light:g}",
                case=case,
                hint="The floor is what no honest kernel can do without: it never counts more.",
            )
