"""What is known of the architectures that can be compiled for: limits, and the answers that a device would give.

Limits: CUDA C++ Programming Guide 13.0, appendix "Compute Capabilities", table "Technical Specifications per Compute
Capability" (threads, blocks, registers and shared memory per multiprocessor, cluster size), and `cuda_occupancy.h` of
CUDA 13 (allocation granularities: registers by 256 per warp, shared memory by 128 bytes, four sub-partitions). Tensor
memory: PTX ISA 8.8, "Tensor Memory": 128 lanes × 512 columns a multiprocessor. `DeviceFacts` are those of one product
of the architecture, from NVIDIA's datasheets and what the driver reports there; `product` says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import RequestError, did_you_mean


@dataclass(frozen=True)
class DeviceFacts:
    """What code asks a device about itself, for one product of an architecture. Sizes in bytes."""

    product: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    clock_khz: int
    memory_bus_bits: int


@dataclass(frozen=True)
class Architecture:
    """Hardware limits of one architecture. Shared memory in bytes, tensor memory in columns."""

    name: str
    capability: tuple[int, int]
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    shared_per_block: int
    """The most that a block may have after opting in (cudaFuncAttributeMaxDynamicSharedMemorySize)."""
    cluster_blocks: int
    """The most blocks of a cluster; above 8 the kernel must allow a non-portable size."""
    tensor_memory_columns: int
    device: DeviceFacts
    registers_per_multiprocessor: int = 65536
    registers_per_thread: int = 255
    threads_per_block: int = 1024
    shared_reserved_per_block: int = 1024
    """Shared memory that the driver takes of every block's share (since compute capability 8.0)."""
    shared_per_block_default: int = 49152

    @property
    def number(self) -> int:
        """The capability as Triton writes it: 100 for 10.0."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def warps_per_multiprocessor(self) -> int:
        return self.threads_per_multiprocessor // 32


_KIB, _GIB = 1024, 1024**3

ARCHITECTURES: dict[str, Architecture] = {
    each.name: each
    for each in (
        Architecture(
            "sm_80", (8, 0), 2048, 32, 164 * _KIB, 163 * _KIB, 1, 0,
            DeviceFacts("NVIDIA A100-SXM4-80GB", 108, 80 * _GIB, 40 * _KIB**2, 1_410_000, 5120),
        ),
        Architecture(
            "sm_86", (8, 6), 1536, 16, 100 * _KIB, 99 * _KIB, 1, 0,
            DeviceFacts("NVIDIA GeForce RTX 3090", 82, 24 * _GIB, 6 * _KIB**2, 1_695_000, 384),
        ),
        Architecture(
            "sm_89", (8, 9), 1536, 24, 100 * _KIB, 99 * _KIB, 1, 0,
            DeviceFacts("NVIDIA L40S", 142, 48 * _GIB, 96 * _KIB**2, 2_520_000, 384),
        ),
        Architecture(
            "sm_90a", (9, 0), 2048, 32, 228 * _KIB, 227 * _KIB, 16, 0,
            DeviceFacts("NVIDIA H200", 132, 141 * _GIB, 60 * _KIB**2, 1_980_000, 6144),
        ),
        Architecture(
            "sm_100a", (10, 0), 2048, 32, 228 * _KIB, 227 * _KIB, 16, 512,
            DeviceFacts("NVIDIA B200", 148, 180 * _GIB, 132_644_864, 1_965_000, 7680),
        ),
        Architecture(
            "sm_103a", (10, 3), 2048, 32, 228 * _KIB, 227 * _KIB, 16, 512,
            DeviceFacts("NVIDIA B300 SXM6 AC", 148, 270 * _GIB, 132_644_864, 1_920_000, 8192),
        ),
        Architecture(
            "sm_120a", (12, 0), 1536, 24, 100 * _KIB, 99 * _KIB, 8, 0,
            DeviceFacts("NVIDIA GeForce RTX 5090", 170, 32 * _GIB, 96 * _KIB**2, 2_407_000, 512),
        ),
        Architecture(
            "sm_121a", (12, 1), 1536, 24, 100 * _KIB, 99 * _KIB, 8, 0,
            DeviceFacts("NVIDIA GB10", 48, 119 * _GIB, 24 * _KIB**2, 2_418_000, 256),
        ),
    )
}  # fmt: skip

GPU_NAMES: dict[str, str] = {
    "A100": "sm_80", "L40S": "sm_89", "L4": "sm_89", "H100": "sm_90a", "H200": "sm_90a", "GH200": "sm_90a",
    "B200": "sm_100a", "GB200": "sm_100a", "B300": "sm_103a",
    "GB300": "sm_103a",
}  # fmt: skip
"""The architecture of the GPUs that boards and headers name."""


def find_architecture(name: str) -> Architecture:
    """The architecture of that name, such as `sm_100a`, or of a GPU as headers name it, such as `B200`.

    Raises RequestError with what is known.
    """
    found = ARCHITECTURES.get(name.strip().lower()) or architecture_of_gpu(name.strip())
    if found is None:
        raise RequestError(
            f"unknown architecture '{name}'",
            where="--arch",
            allowed=", ".join(ARCHITECTURES),
            hint=did_you_mean(name.strip().lower(), list(ARCHITECTURES)) or f"Or a GPU: {', '.join(GPU_NAMES)}.",
        )
    return found


def architecture_of_gpu(name: str) -> Architecture | None:
    """The architecture of a GPU as a header or a board names it, e.g. `B200`; None for one that is not listed."""
    wanted = name.casefold()
    return next((ARCHITECTURES[arch] for gpu, arch in GPU_NAMES.items() if gpu.casefold() == wanted), None)
