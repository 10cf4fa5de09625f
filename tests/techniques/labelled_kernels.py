"""The labelled kernels, and how an extraction of one compares with its labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from harness.techniques import State, Technique, extract

FOLDER = Path(__file__).parent / "labelled"


@dataclass(frozen=True)
class Label:
    technique: Technique
    value: str
    state: State
    line: int
    when: str | None


@dataclass(frozen=True)
class Kernel:
    name: str
    part: str
    source: str
    labels: tuple[Label, ...]


def kernels() -> Iterator[Kernel]:
    for name, entry in yaml.safe_load((FOLDER / "labels.yml").read_text()).items():
        source = (FOLDER / "kernels" / name).read_text()
        lines = source.splitlines()
        labels = []
        for technique, value, state, fragment, *when in entry["labels"]:
            line = next(number for number, text in enumerate(lines, start=1) if fragment in text)
            labels.append(Label(Technique(technique), value, State(state), line, when[0] if when else None))
        yield Kernel(name, entry["part"], source, tuple(labels))


@dataclass(frozen=True)
class Score:
    labels: int = 0
    right: int = 0
    found: int = 0
    on_the_line: int = 0
    conditions: int = 0
    conditions_right: int = 0
    errors: tuple[str, ...] = field(default=())

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def __radd__(self, other: object) -> Score:
        return self

    @property
    def precision(self) -> str:
        return _share(self.right, self.found)

    @property
    def recall(self) -> str:
        return _share(self.right, self.labels)

    @property
    def line(self) -> str:
        return _share(self.on_the_line, self.right)

    @property
    def condition(self) -> str:
        return _share(self.conditions_right, self.conditions)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "–"


def score(kernel: Kernel) -> Score:
    """Technique, value and state decide; findings that differ only by their condition count once."""
    findings: dict[tuple[Technique, str, State], list[tuple[set[int], str]]] = {}
    for finding in extract(kernel.source, kernel.name):
        key = (finding.technique, finding.value, finding.state)
        findings.setdefault(key, []).append((set(finding.lines), finding.when))
    labels = {(label.technique, label.value, label.state): label for label in kernel.labels}
    right = labels.keys() & findings.keys()
    conditional = [key for key, label in labels.items() if label.when is not None]
    errors = [f"missed  {kernel.name}:{labels[key].line} {' '.join(key)}" for key in labels.keys() - findings.keys()]
    errors += [
        f"false   {kernel.name}:{sorted(findings[key][0][0])} {' '.join(key)}"
        for key in findings.keys() - labels.keys()
    ]
    errors += [
        f"line    {kernel.name}:{labels[key].line} {' '.join(key)}: {[sorted(lines) for lines, _ in findings[key]]}"
        for key in right
        if not any(labels[key].line in lines for lines, _ in findings[key])
    ]
    errors += [
        f"when    {kernel.name}:{labels[key].line} {' '.join(key)}: {[when for _, when in findings.get(key, [])]}"
        for key in conditional
        if labels[key].when not in [when for _, when in findings.get(key, [])]
    ]
    return Score(
        labels=len(labels),
        right=len(right),
        found=len(findings),
        on_the_line=sum(any(labels[key].line in lines for lines, _ in findings[key]) for key in right),
        conditions=len(conditional),
        conditions_right=sum(labels[key].when in [when for _, when in findings.get(key, [])] for key in conditional),
        errors=tuple(sorted(errors)),
    )
