"""`harness doctor`: what this machine can do, what is missing and how to get it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import json_option, print_json, stdout_console
from harness.cli.formatting import printable
from harness.errors import ExitStatus

if TYPE_CHECKING:
    from rich.console import Console

    from harness.doctor import Finding

STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> int:
    """Say what this machine can do, what is missing and how to get it. Nothing is changed.

    \b
    harness doctor
    harness doctor --json

    ok: as it should be. note: something can't be done here, or could be better. problem: something is broken.

    Exit status: 0, whatever is noted, also where results can be measured and not recorded; 3 when no kernel can be
    checked and measured here at all.
    """
    from harness.doctor import diagnose

    if as_json:
        findings = list(diagnose())
        print_json(document(findings))
    else:
        findings = render(stdout_console(), diagnose())
    return ExitStatus.MACHINE_CANNOT if any(finding.blocks for finding in findings) else ExitStatus.PASSED


def document(findings: list[Finding]) -> dict[str, Any]:
    """The document of `doctor --json`."""
    return {
        "usable": not any(finding.blocks for finding in findings),
        "can_record": not any(finding.stops_recording for finding in findings),
        "findings": [finding.to_dict() for finding in findings],
    }


def render(console: Console, findings: Iterable[Finding]) -> list[Finding]:
    """Write each finding as it comes, and a last line that sums them up; returns them."""
    from rich.text import Text

    width = min(console.width, 100)
    seen: list[Finding] = []
    for finding in findings:
        seen.append(finding)
        level = finding.level.value
        head = f"{level:<7} {finding.area:<14} "
        first, *rest = _wrapped(finding.text, width, head)
        console.print(Text.assemble((head[:7], STYLES[level]), head[7:], first), soft_wrap=True)
        for line in [*rest, *(_wrapped(f"-> {finding.advice}", width, head) if finding.advice else [])]:
            console.print(Text(" " * len(head) + line), soft_wrap=True)
    console.print(Text(summary(seen), style="bold"), soft_wrap=True)
    return seen


def _wrapped(text: str, width: int, head: str) -> list[str]:
    import textwrap

    plain = printable(" ".join(text.split()))
    return textwrap.wrap(plain, max(30, width - len(head)), break_on_hyphens=False) or [""]


def summary(findings: list[Finding]) -> str:
    """The last line."""
    blocking = [finding.area for finding in findings if finding.blocks]
    if blocking:
        return f"No kernel can be checked and measured here: {', '.join(dict.fromkeys(blocking))}."
    problems = sum(finding.level.value == "problem" for finding in findings)
    notes = sum(finding.level.value == "note" for finding in findings)
    counts = f"problems: {problems}, notes: {notes}."
    if any(finding.stops_recording for finding in findings):
        return f"Nothing can be recorded here: `harness submit` fails, `harness run` works; {counts}"
    return f"Kernels can be checked and measured here; {counts}"
