"""The modules that a submission imports, and the launch of its kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from emulated import load_with_task

from gluon_emulator import barriers, copies, memory, products, values
from gluon_emulator.block import Block, Device
from gluon_emulator.values import Constant, Pointer, Value


class Layout:
    """Of whatever kind: nothing here depends on it."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    @staticmethod
    def get_default_for(*_: object) -> Layout:
        return Layout()


class Kernel:
    """What `gluon.jit` makes: a function for kernels to call, and a kernel to launch (tutorial "Introduction")."""

    def __init__(self, function: Callable[..., Any], device: Device) -> None:
        self.function, self.device = function, device

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        """Thread blocks run in any order. Options, such as num_warps, are for the kernel if it names them."""
        code = self.function.__code__

        def launch(*arguments: Any, **options: Any) -> None:
            known = {name: value for name, value in options.items() if name in code.co_varnames[: code.co_argcount]}
            for program in self.device.random.sample(range(grid[0]), grid[0]):
                Block.running = Block(self.device, program, grid[0])
                self.function(*map(passed, arguments), **known)
                Block.running.end()

        return launch


def passed(argument: Any) -> Any:
    """What a kernel receives for what it is given."""
    if isinstance(argument, torch.Tensor):
        return Pointer(argument, Value(0, wide=True))
    return Value(argument) if isinstance(argument, int) else argument


def warp_specialize(
    functions: list[tuple[Callable[..., None], tuple[Any, ...]]], warps: list[int], registers: list[int]
) -> None:
    """The first runs in the warps of the kernel, the others in warps of their own (tutorial "Warp Specialization")."""
    assert len(functions) == len(warps) + 1 == len(registers) + 1
    Block.running.specialize(functions)


def modules(device: Device) -> dict[str, ModuleType]:
    """`sys.modules` of a submission: this Gluon, and nothing of Triton but `cdiv` and `constexpr_function`."""

    def module(name: str, **names: Any) -> ModuleType:
        made = ModuleType(name)
        made.__dict__.update(names)
        return made

    def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
        return jit if function is None else Kernel(function, device)

    def unchanged(x: Any) -> Any:
        return x

    language = module(
        "language",
        constexpr=Constant, float32=torch.float32, int64=torch.int64, uint32=torch.int32, static_range=range,
        BlockedLayout=Layout, SliceLayout=Layout, DotOperandLayout=Layout, SwizzledSharedLayout=Layout,
        NVMMADistributedLayout=Layout, NVMMASharedLayout=Layout,
        program_id=lambda axis: Value(Block.running.program), num_programs=lambda axis: Value(Block.running.programs),
        allocate_shared_memory=memory.allocate_shared_memory, warp_specialize=warp_specialize,
        **{name: getattr(values, name) for name in (
            "arange", "cdiv", "convert_layout", "dot_fma", "inline_asm_elementwise", "load", "minimum", "reduce_or",
            "rsqrt", "split", "store", "sum", "where", "zeros",
        )},
    )  # fmt: skip
    ampere = {
        "async_copy": module(
            "async_copy", async_copy_global_to_shared=copies.cp_async,
            commit_group=copies.commit_group, wait_group=copies.wait_group,
        ),
    }  # fmt: skip
    hopper = {
        "mbarrier": module(
            "mbarrier", MBarrierLayout=Layout,
            init=barriers.init, arrive=barriers.arrive, expect=barriers.expect, wait=barriers.wait,
        ),
        "tma": module(
            "tma", async_copy_global_to_shared=copies.tma_load,
            async_copy_shared_to_global=copies.tma_store, store_wait=copies.store_wait,
        ),
        "fence_async_shared": memory.fence_async_shared,
        "warpgroup_mma": products.warpgroup_mma,
        "warpgroup_mma_wait": products.warpgroup_mma_wait,
    }  # fmt: skip
    blackwell = {
        **{name: hopper[name] for name in ("mbarrier", "tma", "fence_async_shared")},
        "TensorMemoryLayout": Layout,
        "get_tmem_reg_layout": Layout,
        "allocate_tensor_memory": memory.allocate_tensor_memory,
        "tcgen05_mma": products.tcgen05_mma,
        "tcgen05_commit": products.tcgen05_commit,
    }
    gluon = module("gluon", jit=jit, constexpr_function=unchanged, language=language)
    base = "triton.experimental.gluon"
    return {
        "triton": module("triton", cdiv=lambda x, y: -(-x // y)),
        "triton.runtime": module("runtime"),
        "triton.runtime.jit": module("jit", constexpr_function=unchanged),
        "triton.experimental": module("experimental", gluon=gluon),
        base: gluon,
        f"{base}.language": language,
        f"{base}.language.nvidia": module("nvidia"),
        f"{base}.language.nvidia.ampere": module("ampere", **ampere),
        f"{base}.language.nvidia.hopper": module("hopper", **hopper),
        f"{base}.language.nvidia.blackwell": module("blackwell", **blackwell),
        f"{base}.nvidia": module("nvidia"),
        f"{base}.nvidia.hopper": module("hopper", TensorDescriptor=copies.TensorDescriptor),
    }


def load_gluon(board: str, path: Path, device: Device) -> ModuleType:
    """A submission whose kernels run here, with the delays of the device."""
    given = modules(device)
    kept = {name: sys.modules.get(name) for name in given}
    try:
        sys.modules.update(given)
        return load_with_task(board, path)
    finally:
        for name, before in kept.items():
            sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before
