"""The worker: imports a submission, follows its cases on the make-believe device, and writes down what was compiled.

Messages, each answered by one frame:

`{"op": "inputs", "board", "architecture", "cases": [{"index", "spec"}], "out"}`   make the board's inputs (no sandbox)
`{"op": "compile", "architecture", "code", "file", "support", "shown_as", "cases", "out"}`
`{"op": "cuda", "architecture", "code", "sources", "include_dirs", "options", "shown_as", "out"}`

Before the answer come frames `{"case": index}` as each case begins, `{"compiling": kernel or null, "line"}`, and
`{"nvcc": source's name}` as a build begins.
Results lie in `out`: `result.json`, rewritten after every case so that a crash loses one case alone, and the kernels'
files.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.compiling.analyse import analyse
from harness.compiling.architectures import ARCHITECTURES
from harness.compiling.jsonable import to_dict
from harness.compiling.record import CompiledCase, Kernel, ProblemKind
from harness.compiling.worker.collect import Collector
from harness.compiling.worker.failures import note_exception
from harness.wire.channel import Channel, ChannelClosed, Message

RESULT = "result.json"


class Job:
    """One compilation in progress: what was found so far, written after each step."""

    def __init__(self, request: Message) -> None:
        self.collector = Collector(
            ARCHITECTURES[request["architecture"]], Path(request["code"]), dict(request["shown_as"])
        )
        self.out = Path(request["out"])
        self._done: dict[str, Kernel] = {}
        self._seen: dict[str, object] = {}
        """What each kernel's report was made of, as far as launches may change it."""
        self.cases: list[CompiledCase] = []

    def write(self) -> None:
        """Analyse what is new and put the result in place whole."""
        from concurrent.futures import ThreadPoolExecutor

        fresh = [key for key, found in self.collector.kernels.items() if self._seen.get(key) != found.shape]
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            for key, kernel in zip(fresh, pool.map(self._analyse, fresh), strict=True):
                self._seen[key] = self.collector.kernels[key].shape
                if kernel is not None:
                    self._done[key] = kernel
        kernels = [self._refreshed(key, kernel) for key, kernel in self._done.items()]
        document = {
            "kernels": to_dict(kernels),
            "cases": to_dict(self.cases),
            "problems": to_dict(self.collector.problems.get(None, [])),
            "seen": sorted(self.collector.dsls_seen),
        }
        temporary = self.out / (RESULT + ".new")
        temporary.write_text(json.dumps(document))
        temporary.rename(self.out / RESULT)

    def _analyse(self, key: str) -> Kernel | None:
        found = self.collector.kernels[key]
        stem = f"k{list(self.collector.kernels).index(key):03d}"
        try:
            return analyse(found, self.collector.architecture, self.out, stem)
        except Exception as error:  # an artefact of a newer compiler must not lose the others
            text = f"the compiled kernel can't be read: {error}"
            self.collector.problem(ProblemKind.NOT_FOLLOWED, text, kernel=found.name, source=found.source)
            return None

    def _refreshed(self, key: str, kernel: Kernel) -> Kernel:
        """Launches and cases grow while the report stays."""
        from dataclasses import replace

        found = self.collector.kernels[key]
        return replace(kernel, cases=tuple(sorted(found.cases)), launches=found.launches, autotuned=found.autotuned)


def do_compile(request: Message, tell: Callable[[Message], None]) -> Message:
    """Import the submission and call it with every case."""
    from harness.compiling.worker import cuda_answers, hooks
    from harness.compiling.worker.inputs import read_input
    from harness.compiling.worker.make_believe import MakeBelieve
    from harness.worker.entry import load_entry

    job = Job(request)
    collector = job.collector
    collector.tell = tell
    cuda_answers.install(collector)
    hooks.install(collector)
    sys.path.insert(0, request["code"])
    entry = None
    with MakeBelieve(collector) as device:
        try:
            for support in request["support"]:
                importlib.import_module(support)
            entry = load_entry(request["file"])
        except BaseException as error:
            note_exception(collector, error, "the file cannot be imported")
        job.write()
        for case in request["cases"]:
            if entry is None:
                break
            tell({"case": case["index"]})
            collector.case = case["index"]
            started = time.perf_counter()
            try:
                data = read_input(Path(case["input"]), device)
                entry(data)
            except BaseException as error:
                note_exception(collector, error, "")
            else:
                collector.all_survived()
            spec = {key: tuple_of(value) for key, value in case["spec"].items()}
            job.write()
            problems = tuple(collector.problems.get(case["index"], []))
            calls = dict(collector.library.get(case["index"], {}))
            seconds = round(time.perf_counter() - started, 3)
            job.cases.append(CompiledCase(case["index"], spec, problems, calls, seconds))
            collector.case = None
            job.write()
    return {"done": True}


def do_cuda(request: Message, tell: Callable[[Message], None]) -> Message:
    """Compile CUDA sources as they lie."""
    from harness.compiling.record import Dsl
    from harness.compiling.worker.cuda_hooks import add_kernels, compile_for

    job = Job(request)
    job.collector.tell = tell
    code = Path(request["code"])
    for name in request["sources"]:
        try:
            built = compile_for(
                job.collector,
                code / name,
                options=request["options"],
                include_dirs=[code, *(code / each for each in request["include_dirs"])],
            )
            add_kernels(job.collector, code / name, built, Dsl.CUDA)
        except Exception as error:
            note_exception(job.collector, error, "")
    job.write()
    return {"done": True}


def do_inputs(request: Message, tell: Callable[[Message], None]) -> Message:
    """Make a board's inputs; see `harness.compiling.worker.inputs`."""
    from harness.compiling.worker.inputs import make_inputs

    return {"inputs": make_inputs(request)}


OPERATIONS = {"compile": do_compile, "cuda": do_cuda, "inputs": do_inputs}


def tuple_of(value: Any) -> Any:
    return tuple(tuple_of(each) for each in value) if isinstance(value, list) else value


def run_worker(sock: socket.socket) -> None:
    """Do what the one request says, answer, and leave without the submission's exit handlers."""
    channel = Channel(sock)
    try:
        request, _ = channel.receive_with_fds()
        try:
            answer = OPERATIONS[request["op"]](request, channel.send)
        except BaseException as error:
            import traceback

            answer = {"fault": f"{type(error).__name__}: {error}"[:2000], "traceback": traceback.format_exc()[-20000:]}
        channel.send(answer)
    except ChannelClosed:
        pass
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
