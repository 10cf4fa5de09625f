"""What this machine can do for a kernel author, what is missing, and how to get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.doctor.findings import Finding, Level, problem
from harness.errors import HarnessError

__all__ = ["Finding", "Level", "diagnose"]


def diagnose() -> Iterator[Finding]:
    """Every finding, the cheap ones first; torch is imported last. Nothing on the machine is changed."""
    from harness.doctor import gpu, machine, records

    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("Python", machine.python),
        ("cores", machine.resources),
        ("disk (store)", lambda: machine.disk("disk (store)", records.store_folder())),
        ("disk (scratch)", lambda: machine.disk("disk (scratch)", machine.scratch_folder())),
        ("store", records.store),
        ("boards", records.boards),
        ("popcorn client", records.popcorn_client),
        ("packages", machine.packages),
        ("programs", machine.programs),
        ("isolation", machine.isolation),
        ("GPU", gpu.by_driver),
        ("torch", gpu.by_torch),
    )
    for area, check in checks:
        yield from _whatever_happens(area, check)


def _whatever_happens(area: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check. One that breaks off is a finding too: who asks has a machine with something broken."""
    try:
        yield from check()
    except HarnessError as error:
        where = f"{error.where}: " if error.where else ""
        yield problem(area, f"{where}{error.what}", error.hint)
    except Exception as error:
        yield problem(area, f"it can't be looked at: {type(error).__name__}: {error}", "")
