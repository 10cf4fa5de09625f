"""Findings as the JSON text that the store keeps, and as the parts of a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from harness.techniques.finding import Finding, State, Technique


def finding_document(finding: Finding) -> dict[str, Any]:
    return {
        "technique": finding.technique.value,
        "value": finding.value or None,
        "state": finding.state.value,
        "lines": list(finding.lines),
        "when": finding.when or None,
    }


def to_json(findings: Sequence[Finding]) -> str:
    return json.dumps([finding_document(finding) for finding in findings], ensure_ascii=True)


def from_json(text: str) -> tuple[Finding, ...]:
    """The inverse of `to_json`."""
    return tuple(
        Finding(
            Technique(part["technique"]),
            part["value"] or "",
            State(part["state"]),
            tuple(part["lines"]),
            part["when"] or "",
        )
        for part in json.loads(text)
    )
