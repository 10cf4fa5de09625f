"""Runs one submission on one case file by the public popcorn protocol: `python eval.py MODE CASES`.

MODE is test, benchmark, leaderboard or profile; CASES has a case a line, `batch: 16; n: 32`. The verdict goes as
`key: value` lines to the file descriptor that POPCORN_FD names; POPCORN_SEED, if set, moves every seed of the cases.

    test-count, test.I.spec, test.I.status (pass, fail), test.I.message, test.I.error
    benchmark-count, benchmark.I.spec, .runs, .mean, .std, .err, .best, .worst (ns), or .status: fail and .error
    benchmark.I.report (profile: a table in base64), and at last  check: pass  or  check: fail

The board's files (`reference.py`, `task.py`, `submission.py`) lie in the same folder. The submission, the inputs and
the checks share one child process, as in the public evaluators, so a submission can forge all of this; numbers from
here are for comparison with the hosted service, and no ranking of this harness uses them.

Exit status: 0 passed, 110 a CUDA call failed, 111 no descriptor, 112 something was wrong, 113 bad case file, 2 usage.
(114, a timeout, is the status that the runner gives when it ends this process.)
"""

from __future__ import annotations

import ast
import base64
import math
import multiprocessing
import os
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TextIO

# The hosted service reads the pipe only after this process has ended: what does not fit into it would block for ever.
PIPE_BYTES = 60_000
MAX_CALLS = 50
"""Calls between the two clock readings, at most. Their inputs together stay under INPUT_BYTES where there are two."""
INPUT_BYTES = 256 * 2**20
ERROR_OF_MEAN = 1e-3
"""Measuring stops when the standard error of the mean is below this fraction of it."""


class Exit(IntEnum):
    """What the exit status says."""

    SUCCESS = 0
    USAGE = 2
    CUDA_FAIL = 110
    PIPE_FAILED = 111
    VALIDATE_FAIL = 112
    TEST_SPEC = 113


@dataclass(frozen=True)
class Effort:
    """How long to measure: repeats of the timed window at most, and seconds, input and checks included, at most."""

    repeats: int
    seconds: float


WARM_UP = Effort(repeats=3, seconds=1.0)
EFFORTS = {"benchmark": Effort(repeats=50, seconds=10.0), "leaderboard": Effort(repeats=100, seconds=30.0)}


@dataclass(frozen=True)
class Case:
    """One line of the case file: its text, and the arguments of `generate_input`."""

    text: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What the child says of one case. `durations_ns` has one figure a timed window."""

    passed: bool
    message: str = ""
    durations_ns: list[float] = field(default_factory=list)
    cuda_error: bool = False


class CaseFileError(Exception):
    """The case file can't be read; the text says where and why."""


# --- the case file ---------------------------------------------------------------------------------------------------


def parse_value(text: str) -> Any:
    """A case value: int, float, True, False, None, list or tuple of them (both become tuples), else the text itself."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return _tuples(value) if isinstance(value, int | float | str | list | tuple | None) else text


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def parse_case(line: str, where: str) -> Case:
    """`batch: 16; case: dense` as a Case. Raises CaseFileError."""
    arguments: dict[str, Any] = {}
    for part in line.split(";"):
        key, colon, value = (piece.strip() for piece in part.partition(":"))
        if not key.isidentifier() or not colon or not value:
            raise CaseFileError(f"{where}: '{part.strip()}' is no `key: value`")
        if key in arguments:
            raise CaseFileError(f"{where}: '{key}' is given twice")
        arguments[key] = parse_value(value)
    return Case(line.strip(), arguments)


def combine_seeds(public: int, secret: int) -> int:
    """Cantor's pairing, as the public evaluators use it: knowing `public` says nothing about the result."""
    total = public + secret
    return public + total * (total + 1) // 2


def read_cases(path: str, secret: int | None) -> list[Case]:
    """The cases of a file, their seeds moved by `secret`. Raises CaseFileError."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFileError(f"{path}: {error}") from error
    cases = [parse_case(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not cases:
        raise CaseFileError(f"{path}: no cases")
    for case in cases:
        if secret is not None and isinstance(case.arguments.get("seed"), int):
            case.arguments["seed"] = combine_seeds(case.arguments["seed"], secret)
    return cases


# --- in the child ----------------------------------------------------------------------------------------------------


def _each_tensor(data: Any, function: Callable[[Any], Any]) -> Any:
    """The same containers with `function` applied to every tensor."""
    import torch

    if isinstance(data, torch.Tensor):
        return function(data)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_each_tensor(item, function) for item in data))
    if isinstance(data, list | tuple):
        return type(data)(_each_tensor(item, function) for item in data)
    if isinstance(data, dict):
        return {key: _each_tensor(item, function) for key, item in data.items()}
    return data


def _clone(data: Any) -> Any:
    return _each_tensor(data, lambda tensor: tensor.clone())


def _byte_count(data: Any) -> int:
    sizes: list[int] = []
    _each_tensor(data, lambda tensor: sizes.append(tensor.numel() * tensor.element_size()))
    return sum(sizes)


def _check(data: Any, output: Any) -> tuple[bool, str]:
    """The board's verdict; older boards return a message or a list of them, empty for right."""
    from reference import check_implementation

    verdict = check_implementation(data, output)
    if isinstance(verdict, tuple):
        return bool(verdict[0]), str(verdict[1] or "")
    text = verdict if isinstance(verdict, str) else "\n".join(str(item) for item in verdict or [])
    return not text, text


def _fresh_input(case: Case, data: Any) -> tuple[Any, int]:
    """An input like `data` with content that nobody could foresee, and the seed that made it."""
    import reference

    seed = secrets.randbits(48)
    if hasattr(reference, "vary_input"):
        return reference.vary_input(data, seed), seed
    if "seed" in case.arguments:
        return reference.generate_input(**{**case.arguments, "seed": seed}), seed
    return reference.generate_input(**case.arguments), seed


class Clock:
    """Times a window of calls: CUDA events after an L2 flush, or the host's clock where there is no GPU."""

    def __init__(self) -> None:
        import torch

        self.cuda = torch.cuda if torch.cuda.is_available() else None
        if self.cuda is not None:
            l2_bytes = self.cuda.get_device_properties().L2_cache_size
            self.flush = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")
            self.start, self.stop = (self.cuda.Event(enable_timing=True) for _ in range(2))

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        if self.cuda is not None:
            self.cuda.synchronize()

    def time(self, function: Callable[[], Any]) -> tuple[Any, float]:
        """The result of `function`, and the nanoseconds that it took on the device."""
        self.synchronize()
        if self.cuda is None:
            began = time.perf_counter_ns()
            result = function()
            return result, float(time.perf_counter_ns() - began)
        # The flush is still running when the start event is queued, which hides the host's part of the first launch.
        self.flush.zero_()
        self.start.record()
        result = function()
        self.stop.record()
        self.cuda.synchronize()
        return result, self.start.elapsed_time(self.stop) * 1e6


def test_case(case: Case) -> Outcome:
    """One call, checked."""
    from reference import generate_input
    from submission import custom_kernel

    clock = Clock()
    data = generate_input(**case.arguments)
    given = _clone(data)
    clock.synchronize()
    output = custom_kernel(given)
    clock.synchronize()
    return Outcome(*_check(data, output))


def benchmark_case(case: Case, effort: Effort) -> Outcome:
    """One checked call, then timed windows of fresh inputs, every output of which is checked."""
    from reference import generate_input
    from submission import custom_kernel

    clock = Clock()
    first = generate_input(**case.arguments)
    passed, message = _check(first, custom_kernel(_clone(first)))
    if not passed:
        return Outcome(False, message)
    # Several calls in one window hide launches behind one another, as the public evaluators do; a CPU has none.
    calls = 1 if clock.cuda is None else max(1, min(MAX_CALLS, INPUT_BYTES // max(1, _byte_count(first))))
    durations: list[float] = []
    deadline = time.monotonic() + effort.seconds
    while len(durations) < effort.repeats:
        elapsed_ns, problem = _window(case, first, calls, clock)
        if problem:
            return Outcome(False, f"timed window {len(durations) + 1}: {problem}")
        durations.append(elapsed_ns / calls)
        if len(durations) >= 3:
            summary = summarise(durations)
            if summary["err"] < ERROR_OF_MEAN * summary["mean"] or time.monotonic() > deadline:
                break
    return Outcome(True, durations_ns=durations)


def _window(case: Case, like: Any, calls: int, clock: Clock) -> tuple[float, str]:
    """The time of `calls` calls on fresh inputs, and what was wrong with the first wrong output, if one was."""
    from submission import custom_kernel

    fresh = [_fresh_input(case, like) for _ in range(calls)]
    given = [_clone(data) for data, _ in fresh]
    outputs, elapsed_ns = clock.time(lambda: [custom_kernel(data) for data in given])
    for (data, seed), output in zip(fresh, outputs, strict=True):
        passed, message = _check(data, output)
        if not passed:
            return elapsed_ns, f"{message or 'wrong output'} (input drawn with seed {seed})"
    return elapsed_ns, ""


def profile_case(case: Case, budget_bytes: int) -> Outcome:
    """The torch profiler's table of one call, as many rows of it as fit into the budget. The output is not checked."""
    from reference import generate_input
    from submission import custom_kernel
    from torch.profiler import ProfilerActivity, profile

    clock = Clock()
    given = generate_input(**case.arguments)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if clock.cuda is not None else [])
    clock.synchronize()
    with profile(activities=activities) as profiler:
        custom_kernel(given)
        clock.synchronize()
    order = "self_cpu_time_total" if clock.cuda is None else "self_device_time_total"
    for rows in (20, 10, 5, 2):
        table = profiler.key_averages().table(sort_by=order, row_limit=rows, max_name_column_width=48)
        if len(table.encode()) <= budget_bytes:
            break
    return Outcome(True, table.encode()[:budget_bytes].decode(errors="ignore"))


def serve(connection: Connection) -> None:
    """The child's loop: (function, arguments) in, Outcome out. A failure is an Outcome too, its traceback on stderr."""
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            outcome = function(*arguments)
        except BaseException as error:
            print(f"In case ({arguments[0].text}):", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
            accelerator = type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)
            outcome = Outcome(False, text, cuda_error=accelerator)
        connection.send(outcome)


# --- in the parent ---------------------------------------------------------------------------------------------------


class Child:
    """The process in which the submission runs; a new one after a crash or a CUDA error, which poisons its context."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.process: Any = None

    def run(self, function: Callable[..., Outcome], *arguments: Any) -> Outcome:
        """`function(*arguments)` in the child; its death is an Outcome that says how it ended."""
        if self.process is None:
            self.connection, theirs = self.context.Pipe()
            self.process = self.context.Process(target=serve, args=(theirs,))
            self.process.start()
            theirs.close()
        self.connection.send((function, arguments))
        wait([self.connection, self.process.sentinel])
        try:
            outcome: Outcome = self.connection.recv() if self.connection.poll() else self._died()
        except (EOFError, OSError):
            outcome = self._died()
        if outcome.cuda_error:
            self.close()
        return outcome

    def _died(self) -> Outcome:
        self.process.join()
        status = self.process.exitcode
        self.close()
        return Outcome(False, f"the submission's process ended by itself, exit status {status}")

    def close(self) -> None:
        """End the child, if there is one."""
        if self.process is not None:
            self.connection.close()
            self.process.kill()
            self.process.join()
            self.process = None


class Report:
    """Writes the `key: value` lines, and never more of a message than its share of the pipe."""

    def __init__(self, stream: TextIO, cases: int) -> None:
        self.stream = stream
        self.message_bytes = max(100, PIPE_BYTES // cases - 400)  # 400 for the other lines of the case

    def line(self, key: str, value: object) -> None:
        """One line; line breaks in the value become a backslash and an n, which the hosted service turns back."""
        text = "\\n".join(str(value).splitlines()).encode()
        if len(text) > self.message_bytes:
            text = text[: self.message_bytes - 6] + b" [...]"
        print(f"{key}: {text.decode(errors='ignore')}", file=self.stream, flush=True)

    def report_bytes(self) -> int:
        """Bytes that a report may have before it is base64, which makes four of three."""
        return self.message_bytes * 3 // 4 - 6


def summarise(durations_ns: list[float]) -> dict[str, float]:
    """runs, mean, std (n − 1), err (of the mean), best and worst, in nanoseconds."""
    runs = len(durations_ns)
    mean = math.fsum(durations_ns) / runs
    std = math.sqrt(math.fsum((x - mean) ** 2 for x in durations_ns) / (runs - 1)) if runs > 1 else 0.0
    best, worst = min(durations_ns), max(durations_ns)
    return {"runs": runs, "mean": mean, "std": std, "err": std / math.sqrt(runs), "best": best, "worst": worst}


def run_mode(mode: str, cases: list[Case], child: Child, report: Report) -> Exit:
    """Run every case and write its lines; a failing case does not hide the ones after it."""
    kind = "test" if mode == "test" else "benchmark"
    report.line(f"{kind}-count", len(cases))
    failed = cuda_failed = False
    if mode in EFFORTS:
        # A failure here shows again in the case's own run, which reports it.
        for case in cases if mode == "leaderboard" else cases[:1]:
            child.run(benchmark_case, case, WARM_UP)
    for index, case in enumerate(cases):
        report.line(f"{kind}.{index}.spec", case.text)
        if mode == "test":
            outcome = child.run(test_case, case)
        elif mode == "profile":
            outcome = child.run(profile_case, case, report.report_bytes())
        else:
            outcome = child.run(benchmark_case, case, EFFORTS[mode])
        failed |= not outcome.passed
        cuda_failed |= outcome.cuda_error
        if not outcome.passed:
            report.line(f"{kind}.{index}.status", "fail")
            report.line(f"{kind}.{index}.error", outcome.message)
        elif mode == "test":
            report.line(f"{kind}.{index}.status", "pass")
            if outcome.message:
                report.line(f"{kind}.{index}.message", outcome.message)
        elif mode == "profile":
            report.line(f"{kind}.{index}.report", base64.b64encode(outcome.message.encode(), b"+*").decode())
        else:
            for key, value in summarise(outcome.durations_ns).items():
                report.line(f"{kind}.{index}.{key}", value)
    report.line("check", "fail" if failed else "pass")
    if cuda_failed:
        return Exit.CUDA_FAIL
    return Exit.VALIDATE_FAIL if failed else Exit.SUCCESS


def main() -> Exit:
    """Read the environment and the arguments, run, and return the exit status."""
    # Out of the environment before the child starts, so that the submission finds neither.
    descriptor, seed = os.environ.pop("POPCORN_FD", ""), os.environ.pop("POPCORN_SEED", "")
    try:
        stream = os.fdopen(int(descriptor), "w")
    except (ValueError, OSError) as error:
        print(f"POPCORN_FD '{descriptor}' is no open file descriptor: {error}", file=sys.stderr)
        return Exit.PIPE_FAILED
    os.set_inheritable(stream.fileno(), False)
    modes = ("test", "profile", *EFFORTS)
    if len(sys.argv) != 3 or sys.argv[1] not in modes:
        print(f"usage: eval.py {{{','.join(modes)}}} CASES", file=sys.stderr)
        return Exit.USAGE
    try:
        cases = read_cases(sys.argv[2], int(seed) if seed else None)
    except (CaseFileError, ValueError) as error:
        print(error, file=sys.stderr)
        return Exit.TEST_SPEC
    child = Child()
    try:
        with stream:
            return run_mode(sys.argv[1], cases, child, Report(stream, len(cases)))
    finally:
        child.close()


if __name__ == "__main__":
    sys.exit(main())
