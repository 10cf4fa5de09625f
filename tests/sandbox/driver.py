"""A fork server in small: reads a job as JSON from stdin, runs it in a sandbox, writes what happened as JSON.

It is a program of its own so that tests can run it as another user, without what pytest has loaded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import inside  # noqa: E402

from harness.evaluation.record import IsolationLevel  # noqa: E402
from harness.sandbox import (  # noqa: E402
    Cgroup,
    MemoryWatcher,
    SandboxError,
    SandboxPlan,
    default_plan,
    enter,
    harden_supervisor,
    kill_tree,
    linux,
)
from harness.sandbox.processes import become_subreaper, descendants  # noqa: E402


def main() -> None:
    job = json.load(sys.stdin)
    options = dict(job["options"])
    for name in ("readable", "writable", "hidden"):
        options[name] = [Path(path) for path in options.get(name, ())]
    scratch = Path(job["scratch"])
    become_subreaper()
    harden_supervisor()
    if job.get("no_mount_setattr"):
        for numbers in linux._NUMBERS.values():
            numbers["mount_setattr"] = 9999
    group = None
    if job.get("cgroup_bytes"):
        group = Cgroup.create(f"harness-test-{os.getpid()}", memory_bytes=job["cgroup_bytes"], processes=256)
        options["cgroups"] = group.folders
    try:
        plan = default_plan(IsolationLevel(job["level"]), scratch=scratch, cuda=False, **options)
        plan = SandboxPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
        if job.get("keep_uid"):
            plan = dataclasses.replace(plan, uid=None)
        report = run(plan, job)
        if group:
            report["cgroup_oom"] = group.out_of_memory()
    except SandboxError as error:
        report = {"sandbox_error": str(error), "step": error.step, "errno": error.errno}
    finally:
        if group:
            group.kill()
            group.remove()
    print(json.dumps(report))


def run(plan: SandboxPlan, job: dict[str, Any]) -> dict[str, Any]:
    answer_end, answer = os.pipe()
    stray, _stray_writer = os.pipe()  # must not reach the worker
    os.set_inheritable(stray, True)
    started = time.monotonic()
    pid = os.fork()
    if not pid:
        work(plan, job, answer)
    os.close(answer)
    with contextlib.ExitStack() as stack:
        watcher = None
        if job.get("watch_bytes"):
            watcher = stack.enter_context(MemoryWatcher(pid, job["watch_bytes"], uid=plan.uid))
        if job.get("kill_after_s"):
            time.sleep(job["kill_after_s"])
            left = kill_tree(pid, uid=plan.uid)
            answers = b""
        else:
            with os.fdopen(answer_end, "rb") as file:
                answers = file.read()
            left = 0
        _, status = os.waitpid(pid, 0)
    ended = time.monotonic()
    survivors = [process.pid for process in descendants(os.getpid(), uid=plan.uid) if process.alive]
    report = {
        "value": None,
        "exit": os.waitstatus_to_exitcode(status),
        "seconds": ended - started,
        "left": left,
        "survivors": len(survivors),
        "uid": plan.uid,
        "watcher": watcher.exceeded if watcher else None,
    }
    return {**report, **(json.loads(answers) if answers else {})}


def work(plan: SandboxPlan, job: dict[str, Any], answer: int) -> None:
    status = 71
    try:
        try:
            enter(plan, keep_fds=(answer,))
        except SandboxError as error:
            os.write(answer, json.dumps({"sandbox_error": str(error), "step": error.step}).encode())
            return
        value = getattr(inside, job["task"])(*job["arguments"])
        os.write(answer, json.dumps({"value": value}).encode())
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
