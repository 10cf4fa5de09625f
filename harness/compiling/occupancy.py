"""Theoretical occupancy of a kernel: how many of its blocks fit on a multiprocessor, and what keeps more away.

The rule is that of `cuda_occupancy.h` (CUDA 13), which the driver's cuOccupancyMaxActiveBlocksPerMultiprocessor agrees
with: registers are given to warps in units of 256 within each of four sub-partitions, shared memory to blocks in units
of 128 bytes after the driver's own share. Tensor memory comes on top: the driver doesn't count it, but a block waits in
`tcgen05.alloc` while others hold the columns that it wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.compiling.architectures import Architecture

_REGISTER_UNIT = 256
_SHARED_UNIT = 128
_SUB_PARTITIONS = 4
_WARP = 32


class Limiter(StrEnum):
    """What keeps more blocks from a multiprocessor."""

    REGISTERS = "registers"
    SHARED_MEMORY = "shared memory"
    WARPS = "warps"
    BLOCKS = "blocks"
    TENSOR_MEMORY = "tensor memory"


@dataclass(frozen=True)
class Occupancy:
    """`blocks` of a kernel that are resident on a multiprocessor at once, the share of its warps, and the limiters.

    `driver_blocks` leaves tensor memory out, as the driver's own figure does.
    """

    blocks: int
    warps: int
    fraction: float
    limiters: tuple[Limiter, ...]
    driver_blocks: int


def occupancy(
    architecture: Architecture,
    *,
    threads: int,
    registers: int,
    shared_bytes: int,
    tensor_columns: int = 0,
) -> Occupancy:
    """Occupancy for blocks of `threads` with `registers` a thread and `shared_bytes` (static and dynamic together)."""
    warps = -(-threads // _WARP)
    limits = {
        Limiter.WARPS: architecture.warps_per_multiprocessor // warps,
        Limiter.BLOCKS: architecture.blocks_per_multiprocessor,
        Limiter.REGISTERS: _register_limit(architecture, warps, registers),
        Limiter.SHARED_MEMORY: _shared_limit(architecture, shared_bytes),
    }
    driver_blocks = min(limits.values())
    if tensor_columns:
        limits[Limiter.TENSOR_MEMORY] = architecture.tensor_memory_columns // tensor_columns
    blocks = min(limits.values())
    limiters = tuple(limiter for limiter, limit in limits.items() if limit == blocks)
    held = blocks * warps
    return Occupancy(blocks, held, held / architecture.warps_per_multiprocessor, limiters, driver_blocks)


def _register_limit(architecture: Architecture, warps: int, registers: int) -> int:
    if registers == 0:
        return architecture.blocks_per_multiprocessor
    per_warp = _round_up(registers * _WARP, _REGISTER_UNIT)
    if per_warp * _round_up(warps, _SUB_PARTITIONS) > architecture.registers_per_multiprocessor:
        return 0
    per_sub_partition = architecture.registers_per_multiprocessor // _SUB_PARTITIONS // per_warp
    return per_sub_partition * _SUB_PARTITIONS // warps


def _shared_limit(architecture: Architecture, shared_bytes: int) -> int:
    if shared_bytes > architecture.shared_per_block:
        return 0
    per_block = _round_up(shared_bytes + architecture.shared_reserved_per_block, _SHARED_UNIT)
    return architecture.shared_per_multiprocessor // per_block


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
