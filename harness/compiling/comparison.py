"""What changed between two compilations of one architecture: pure, no torch.

Kernels are matched by name and then by specialisation; of those left over of one name, in their order, since a changed
constant is the usual change. A kernel without a partner is new or gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.compiling.record import Compilation, Kernel


class Trend(StrEnum):
    """What a change of a figure means for the kernel, other things being equal."""

    BETTER = "better"
    WORSE = "worse"
    CHANGED = "changed"  # neither good nor bad by itself


@dataclass(frozen=True)
class ResourceChange:
    """One figure that differs, e.g. `registers` from 168 to 96."""

    name: str
    old: float
    new: float
    trend: Trend

    def __str__(self) -> str:
        return f"{self.name} {_written(self.old)} → {_written(self.new)}"


class KernelFate(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True)
class KernelChange:
    """One kernel on both sides; None where a side lacks it."""

    name: str
    old: Kernel | None
    new: Kernel | None
    changes: tuple[ResourceChange, ...] = ()

    @property
    def fate(self) -> KernelFate:
        if self.old is None:
            return KernelFate.ADDED
        if self.new is None:
            return KernelFate.REMOVED
        return KernelFate.CHANGED if self.changes else KernelFate.SAME


@dataclass(frozen=True)
class CompilationChange:
    """The kernels of two compilations side by side; `refusal` says why there is nothing to compare."""

    architecture: str
    kernels: tuple[KernelChange, ...] = ()
    refusal: str = ""
    notes: tuple[str, ...] = ()


_LESS_IS_BETTER = {
    "spill bytes": lambda kernel: kernel.resources.spill_bytes,
    "stack bytes": lambda kernel: kernel.resources.stack_bytes,
}
_MORE_IS_BETTER = {
    "occupancy %": lambda kernel: round(100 * kernel.occupancy.fraction, 1) if kernel.occupancy else None,
}
_NEUTRAL = {
    # Fewer registers or less shared memory help only through occupancy, which is told by itself.
    "registers": lambda kernel: kernel.resources.registers,
    "shared bytes": lambda kernel: kernel.resources.shared_bytes,
    "tensor memory columns": lambda kernel: kernel.resources.tensor_memory_columns,
    "threads": lambda kernel: kernel.resources.threads,
    "cluster": lambda kernel: kernel.resources.cluster[0] * kernel.resources.cluster[1] * kernel.resources.cluster[2],
    "code bytes": lambda kernel: kernel.code_bytes,
}


def compare_compilations(old: Compilation, new: Compilation) -> CompilationChange:
    """Kernel by kernel, what differs. Refuses compilations of different architectures."""
    if old.architecture != new.architecture:
        text = f"one was compiled for {old.architecture}, the other for {new.architecture}"
        return CompilationChange(new.architecture, refusal=text)
    notes = []
    changed = [
        f"{name} {old.versions.get(name, 'absent')} → {new.versions.get(name, 'absent')}"
        for name in ("triton", "helion", "nvidia-cutlass-dsl", "nvcc", "ptxas")
        if old.versions.get(name) != new.versions.get(name)
    ]
    if changed:
        notes.append(f"compiled by other versions: {', '.join(changed)}")
    if {case.index for case in old.cases} != {case.index for case in new.cases}:
        notes.append("different cases were followed")
    pairs = _paired(old.kernels, new.kernels)
    kernels = tuple(KernelChange(name, a, b, _changes(a, b)) for name, a, b in pairs)
    return CompilationChange(new.architecture, kernels, notes=tuple(notes))


def _paired(old: Sequence[Kernel], new: Sequence[Kernel]) -> list[tuple[str, Kernel | None, Kernel | None]]:
    left = list(old)
    partner: dict[int, Kernel] = {}
    for exactly in (True, False):
        for position, kernel in enumerate(new):
            if position in partner:
                continue
            found = next((each for each in left if _match(each, kernel, exactly)), None)
            if found is not None:
                left.remove(found)
                partner[position] = found
    pairs: list[tuple[str, Kernel | None, Kernel | None]] = []
    pairs += [(kernel.name, partner.get(position), kernel) for position, kernel in enumerate(new)]
    return pairs + [(kernel.name, kernel, None) for kernel in left]


def _match(old: Kernel, new: Kernel, exactly: bool) -> bool:
    same = old.name == new.name and old.dsl == new.dsl
    return same and (not exactly or old.specialisation == new.specialisation)


def _changes(old: Kernel | None, new: Kernel | None) -> tuple[ResourceChange, ...]:
    if old is None or new is None:
        return ()
    found = []
    for table, less, more in (
        (_NEUTRAL, Trend.CHANGED, Trend.CHANGED),
        (_LESS_IS_BETTER, Trend.BETTER, Trend.WORSE),
        (_MORE_IS_BETTER, Trend.WORSE, Trend.BETTER),
    ):
        for name, figure in table.items():
            before, after = figure(old), figure(new)
            if before is None or after is None or before == after:
                continue
            found.append(ResourceChange(name, before, after, less if after < before else more))
    for name in sorted({*old.instructions, *new.instructions}):
        if name in _TOLD_INSTRUCTIONS:
            before, after = old.instructions.get(name, 0), new.instructions.get(name, 0)
            if before != after:
                found.append(ResourceChange(f"{name} instructions", before, after, Trend.CHANGED))
    return tuple(found)


_TOLD_INSTRUCTIONS = ("tcgen05", "wgmma", "mma", "tma", "cp.async", "local")


def _written(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0") if isinstance(value, float) else f"{value:,}"
