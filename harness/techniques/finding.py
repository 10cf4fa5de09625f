"""What is found in a source: one technique, its value, where and on what condition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Technique(StrEnum):
    """The choices that a kernel's author makes and that a reader of two versions asks about."""

    TILE_SIZE = "tile_size"
    NUM_WARPS = "num_warps"
    NUM_STAGES = "num_stages"
    TMA = "tma"
    WGMMA = "wgmma"
    TCGEN05 = "tcgen05"
    MMA = "mma"
    WARP_SPECIALIZATION = "warp_specialization"
    PERSISTENT = "persistent"
    SPLIT_K = "split_k"
    ASYNC_COPY = "async_copy"
    CLUSTER = "cluster"
    MBARRIER = "mbarrier"
    SHARED_MEMORY = "shared_memory"
    VECTOR_WIDTH = "vector_width"
    FUSED_EPILOGUE = "fused_epilogue"
    FP4 = "fp4"
    FP8 = "fp8"
    BF16 = "bf16"
    FP16 = "fp16"
    TF32 = "tf32"
    TF32X3 = "tf32x3"
    AUTOTUNE = "autotune"
    CUDA_GRAPH = "cuda_graph"
    INLINE_PTX = "inline_ptx"
    ONLINE_SOFTMAX = "online_softmax"
    L2_HINT = "l2_hint"


WORDS: dict[Technique, str] = {
    Technique.TILE_SIZE: "tile",
    Technique.TMA: "TMA",
    Technique.WARP_SPECIALIZATION: "warp specialisation",
    Technique.PERSISTENT: "persistent",
    Technique.SPLIT_K: "split-K",
    Technique.ASYNC_COPY: "async copy",
    Technique.SHARED_MEMORY: "shared memory",
    Technique.VECTOR_WIDTH: "vector width",
    Technique.FUSED_EPILOGUE: "fused epilogue",
    Technique.TF32X3: "3×tf32",
    Technique.AUTOTUNE: "autotuning",
    Technique.CUDA_GRAPH: "CUDA graph",
    Technique.INLINE_PTX: "inline PTX",
    Technique.ONLINE_SOFTMAX: "online softmax",
    Technique.L2_HINT: "cache hint",
}
"""How a technique is written where its name alone reads badly."""


class State(StrEnum):
    ENABLED = "enabled"  # it takes effect, on the condition if there is one
    DECLARED = "declared"  # the text names it, and nothing turns it on


@dataclass(frozen=True)
class Finding:
    """`value` is a constant's text, or that of the expression where no constant reaches it; empty for what has none.
    `lines` count from 1. `when` is the condition in the source's own words, empty without one."""

    technique: Technique
    value: str
    state: State
    lines: tuple[int, ...]
    when: str = ""

    @property
    def words(self) -> str:
        """`num_warps 8`, `tile BLOCK=128 if n > 64`, `split-K 1 (declared)`."""
        text = WORDS.get(self.technique, self.technique.value)
        if self.value:
            text += f" {self.value}"
        if self.when:
            text += f" if {self.when}"
        return f"{text} (declared)" if self.state is State.DECLARED else text


ORDER = {technique: position for position, technique in enumerate(Technique)}
