"""What this machine can do for a kernel author, what is missing, and how to get it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.doctor.findings import Finding, Level

__all__ = ["Finding", "Level", "diagnose"]


def diagnose() -> Iterator[Finding]:
    """Every finding, the cheap ones first; torch is imported last. Nothing on the machine is changed."""
    from harness.doctor import gpu, machine, records

    yield from machine.python()
    yield from machine.resources(records.store_folder())
    yield from records.store()
    yield from records.boards()
    yield from records.popcorn_client()
    yield from machine.packages()
    yield from machine.programs()
    yield from machine.isolation()
    yield from gpu.by_driver()
    yield from gpu.by_torch()
