"""What one source does that another does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.techniques.finding import ORDER, Finding, Technique


@dataclass(frozen=True)
class TechniqueChange:
    """The findings of one technique that only the old source has, and those that only the new one has."""

    technique: Technique
    lost: tuple[Finding, ...]
    gained: tuple[Finding, ...]


def technique_changes(old: Sequence[Finding], new: Sequence[Finding]) -> list[TechniqueChange]:
    """One entry for each technique that changed. Lines may move freely; values, states and conditions count."""
    before = {_key(finding): finding for finding in old}
    after = {_key(finding): finding for finding in new}
    lost = [finding for key, finding in before.items() if key not in after]
    gained = [finding for key, finding in after.items() if key not in before]
    changed = sorted({finding.technique for finding in (*lost, *gained)}, key=ORDER.__getitem__)
    return [
        TechniqueChange(
            technique,
            tuple(finding for finding in lost if finding.technique is technique),
            tuple(finding for finding in gained if finding.technique is technique),
        )
        for technique in changed
    ]


def _key(finding: Finding) -> tuple[str, ...]:
    return finding.technique.value, finding.value, finding.state.value, finding.when
