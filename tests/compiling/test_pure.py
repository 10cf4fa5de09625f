"""The pure parts of compile mode: occupancy, instructions, cubins, launches in a text, records, comparison."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compiling.analyse import assembler_words, over_limits, tensor_columns
from harness.compiling.architectures import ARCHITECTURES, architecture_of_gpu, find_architecture
from harness.compiling.comparison import KernelFate, Trend, compare_compilations
from harness.compiling.cubin import CubinError, kernels_of
from harness.compiling.instructions import InstructionClass, classify, instruction_mix
from harness.compiling.jsonable import RecordError, compilation_from_dict, to_dict
from harness.compiling.launches import TextLaunch, kernel_lines, launches
from harness.compiling.nvcc import errors_of, without_architecture
from harness.compiling.occupancy import Limiter, occupancy
from harness.compiling.record import (
    Compilation,
    CompiledCase,
    CompileStatus,
    Dsl,
    Kernel,
    Problem,
    ProblemKind,
    Resources,
    SourceLine,
)
from harness.errors import RequestError

HOPPER = ARCHITECTURES["sm_90a"]


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiters"),
    [
        (1024, 32, 0, 2, {Limiter.WARPS, Limiter.REGISTERS}),  # 64 warps of 64; 64 K registers exactly
        (256, 64, 0, 4, {Limiter.REGISTERS}),  # 2048 a warp: 8 of 16384 in a sub-partition, 32 warps, 4 blocks
        (128, 168, 0, 3, {Limiter.REGISTERS}),  # 5376 a warp: 3 a sub-partition, 12 warps, 3 blocks
        (128, 32, 227 * 1024, 1, {Limiter.SHARED_MEMORY}),
        (128, 32, 227 * 1024 + 1, 0, {Limiter.SHARED_MEMORY}),
        (128, 32, 75 * 1024, 3, {Limiter.SHARED_MEMORY}),  # (75 + 1) KiB thrice in 228 KiB
        (128, 32, 75 * 1024 + 1, 2, {Limiter.SHARED_MEMORY}),
        (32, 16, 0, 32, {Limiter.BLOCKS}),
        (1024, 255, 0, 0, {Limiter.REGISTERS}),  # 8192 a warp, 32 warps: more than 64 K
    ],
)
def test_occupancy_on_hopper(threads: int, registers: int, shared: int, blocks: int, limiters: set[Limiter]) -> None:
    found = occupancy(HOPPER, threads=threads, registers=registers, shared_bytes=shared)
    assert (found.blocks, set(found.limiters)) == (blocks, limiters)
    assert found.fraction == blocks * -(-threads // 32) / 64


def test_tensor_memory_limits_blocks_beside_what_the_driver_counts() -> None:
    found = occupancy(ARCHITECTURES["sm_100a"], threads=128, registers=32, shared_bytes=0, tensor_columns=256)
    assert (found.blocks, found.limiters, found.driver_blocks) == (2, (Limiter.TENSOR_MEMORY,), 16)


@given(st.integers(1, 32), st.integers(1, 255), st.integers(0, 232448), st.sampled_from(sorted(ARCHITECTURES)))
def test_occupancy_never_passes_a_resource(warps: int, registers: int, shared: int, name: str) -> None:
    architecture = ARCHITECTURES[name]
    found = occupancy(architecture, threads=32 * warps, registers=registers, shared_bytes=shared)
    assert found.blocks * warps <= architecture.warps_per_multiprocessor
    assert found.blocks * warps * 32 * registers <= architecture.registers_per_multiprocessor
    assert found.blocks * shared <= architecture.shared_per_multiprocessor
    more = occupancy(architecture, threads=32 * warps, registers=min(255, registers + 8), shared_bytes=shared)
    assert more.blocks <= found.blocks


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("UTCHMMA", "tcgen05"), ("UTCOMMA", "tcgen05"), ("LDTM", "tcgen05"), ("UTCBAR", "tcgen05"),
        ("HGMMA", "wgmma"), ("QGMMA", "wgmma"), ("HMMA", "mma"), ("OMMA", "mma"), ("UTMALDG", "tma"),
        ("UBLKCP", "tma"), ("LDGSTS", "cp.async"), ("FFMA", "ffma"), ("FFMA2", "ffma"), ("FADD", "fp32"),
        ("HFMA2", "fp16"), ("DFMA", "fp64"), ("IMAD", "integer"), ("MUFU", "special"), ("F2FP", "convert"),
        ("LDL", "local"), ("STL", "local"), ("LDSM", "shared"), ("STG", "global"), ("ATOMG", "atomic"),
        ("REDUX", "move"), ("RED", "atomic"), ("SYNCS", "barrier"), ("BRA", "control"), ("XYZZY", "other"),
    ],
)  # fmt: skip
def test_classes_of_opcodes(opcode: str, kind: str) -> None:
    assert classify(opcode) is InstructionClass(kind)


def test_padding_and_the_endless_loop_are_not_counted() -> None:
    sass = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 FFMA.FTZ R0, R0, R1, R2 ;
        /*0020*/              @UP1 UTMALDG.2D [UR4], [UR6] ;
        /*0030*/                   EXIT ;
.L_x_0:
        /*0040*/                   BRA `(.L_x_0);
        /*0050*/                   NOP;
        /*0060*/                   NOP;
    """
    assert instruction_mix(sass) == {"tma": 1, "ffma": 1, "move": 1, "control": 1}


@given(st.binary(max_size=300))
def test_anything_but_a_cubin_is_told_as_such(data: bytes) -> None:
    with pytest.raises(CubinError):
        kernels_of(data)


@given(st.data())
def test_a_damaged_cubin_never_ends_in_another_error(data: st.DataObject) -> None:
    cubin = bytearray((Path(__file__).parent / "two_kernels.cubin").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        cubin[data.draw(st.integers(0, len(cubin) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CubinError):
        kernels_of(bytes(cubin))


def test_a_cubin_of_two_kernels() -> None:
    """What `cuobjdump -res-usage` and `-elf` say of the same file (its source is two_kernels.cu)."""
    plain, bounded = kernels_of((Path(__file__).parent / "two_kernels.cubin").read_bytes())
    assert (plain.name, plain.registers, plain.most_threads, plain.stack_bytes) == ("_Z5plainPf", 8, 0, 0)
    assert (bounded.name, bounded.most_threads, bounded.threads) == ("bounded", 256, 0)
    assert plain.section_shared_bytes == 1024  # what the driver keeps on Hopper
    assert bounded.section_shared_bytes == 1024 + 4096


SOURCE = """
#define WARPS 4
constexpr int THREADS = WARPS * 32;  // not <<<1, 2>>>
template <int N> __global__ void __launch_bounds__(THREADS) first(float* x) {}
extern "C" __global__ void second(float* x) {}
__global__ __cluster_dims__(2, 1, 1) void third(float* x);
/* fourth<<<1, 7>>>(x); */
void run(float* x, int n) {
  const dim3 block(16, 8);
  first<32><<<n, THREADS, 1024, stream>>>(x);
  second<<<dim3(1, 2), dim3(8, 8, 4)>>>(x);
  third<<<1, block, n * 4>>>(x);
  third<<<1, n>>>(x);
}
"""


def test_launches_in_a_text() -> None:
    assert launches(SOURCE) == (
        TextLaunch("first", 128, 1024),
        TextLaunch("second", 256, 0),
        TextLaunch("third", 128, None),
        TextLaunch("third", None, 0),
    )
    assert kernel_lines(SOURCE) == {"first": 4, "second": 5, "third": 6}


@given(st.text(alphabet='k<>(){},;*/ \n1a"_', max_size=60))
def test_launches_of_any_text_end(text: str) -> None:
    launches(text)
    kernel_lines(text)


def test_errors_of_nvcc() -> None:
    log = """
code/kernel.cu(12): error: identifier "x" is undefined
code/kernel.cu:3:10: fatal error: cutlass/cutlass.h: No such file or directory
ptxas error   : Entry function 'k' uses too much shared data (0x10004 bytes, 0xc000 max)
"""
    found = errors_of(log)
    assert [(each.file, each.line) for each in found] == [("code/kernel.cu", 12), ("code/kernel.cu", 3), ("", 0)]
    assert found[0].text == 'identifier "x" is undefined'
    assert "too much shared data" in found[2].text


def test_options_that_choose_an_architecture_are_dropped() -> None:
    given_ = ["-O3", "-gencode", "arch=compute_90,code=sm_90", "-arch=sm_80", "--use_fast_math", "-lineinfo"]
    assert without_architecture(given_) == ["-O3", "--use_fast_math", "-lineinfo"]


def test_words_of_the_assembler() -> None:
    log = """
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    8 bytes stack frame, 412 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 4096 bytes smem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Used 8 registers, used 0 barriers
"""
    found = assembler_words(log)
    assert (found["a"].registers, found["a"].spill_store_bytes, found["a"].spill_load_bytes) == (168, 412, 96)
    assert (found["b"].registers, found["b"].spill_store_bytes) == (8, 0)


def test_tensor_memory_of_a_kernel_alone() -> None:
    ptx = """
.visible .entry first(
) { tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 128;
ret; }

.visible .entry second(
) { mov.b32 %r7, 256;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], %r7;
ret; }

.visible .entry third(
) { tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], %r9;
ret; }
"""
    assert [tensor_columns(ptx, name) for name in ("first", "second", "third", "none")] == [128, 256, None, 0]


def test_limits_name_figure_and_bound() -> None:
    resources = Resources(64, 0, 0, 0, 0, 300_000, 1024, 2048, cluster=(32, 1, 1))
    found = over_limits(resources, None, ARCHITECTURES["sm_100a"])
    assert found == (
        "300,000 bytes of shared memory; sm_100a has 232,448 a block",
        "2,048 threads; sm_100a takes 1,024 a block",
        "1024 columns of tensor memory; sm_100a has 512",
        "a cluster of 32 blocks; sm_100a takes 16",
    )


def test_too_many_registers_for_a_block() -> None:
    resources = Resources(255, 0, 0, 0, 0, 0, 0, 512)
    occupied = occupancy(HOPPER, threads=512, registers=255, shared_bytes=0)
    (text,) = over_limits(resources, occupied, HOPPER)
    assert text == "255 registers for each of 512 threads; sm_90a has 65,536 registers"


def test_an_unknown_architecture_says_what_is_known() -> None:
    with pytest.raises(RequestError) as caught:
        find_architecture("sm_90")
    assert "sm_90a" in caught.value.allowed
    assert caught.value.hint == "Did you mean 'sm_90a'?"
    assert find_architecture("SM_100A") is ARCHITECTURES["sm_100a"]
    assert architecture_of_gpu("h200") is HOPPER
    assert architecture_of_gpu("MI300") is None


def kernel(
    name: str = "k", specialisation: str = "N=1", registers: int = 96, spills: int = 0, **more: object
) -> Kernel:
    resources = Resources(registers, spills, spills, 0, 0, 1024, 0, 128)
    occupied = occupancy(HOPPER, threads=128, registers=registers, shared_bytes=1024)
    found = Kernel(
        name, Dsl.TRITON, specialisation, SourceLine("k.py", 3), resources, occupied, {"mma": 8}, 512, 0.5, "ab"
    )
    return dataclasses.replace(found, **more)


def compilation(*kernels: Kernel, architecture: str = "sm_90a", **more: object) -> Compilation:
    case = CompiledCase(0, {"n": 3, "shape": (1, (2, 3)), "kind": "x", "on": True, "p": 0.5, "none": None})
    found = Compilation("k.py", "00", "board", architecture, kernels, (case,), versions={"triton": "3.7.1"})
    return dataclasses.replace(found, **more)


def test_a_compilation_survives_json() -> None:
    problem = Problem(ProblemKind.GUESS, "x", SourceLine("a", 1), survived=True)
    whole = compilation(kernel(problems=(problem,), cases=(0, 2), files={"ptx": "a.ptx"}), kernel("m", occupancy=None))
    again = compilation_from_dict(json.loads(json.dumps(to_dict(whole))))
    assert again == whole
    assert again.status is CompileStatus.COMPILED


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw.pop("file_name"),
        lambda raw: raw.update(surprise=1),
        lambda raw: raw["kernels"][0].update(dsl="fortran"),
        lambda raw: raw["kernels"][0]["resources"].update(registers="many"),
        lambda raw: raw["kernels"][0]["resources"].update(cluster=[1, 1]),
        lambda raw: raw.update(kernels=None),
        lambda raw: raw.update(versions=[]),
    ],
)
def test_what_is_no_compilation_is_refused(damage) -> None:
    raw = json.loads(json.dumps(to_dict(compilation(kernel()))))
    damage(raw)
    with pytest.raises(RecordError):
        compilation_from_dict(raw)


def test_a_failure_outweighs_what_could_not_be_followed() -> None:
    guess, error = Problem(ProblemKind.GUESS, "g"), Problem(ProblemKind.COMPILE_ERROR, "e")
    assert compilation(problems=(guess, error)).status is CompileStatus.FAILED
    assert compilation(problems=(guess,)).status is CompileStatus.NOT_FOLLOWED
    assert compilation(problems=(dataclasses.replace(error, survived=True),)).status is CompileStatus.COMPILED


def test_fewer_registers_and_new_spills() -> None:
    (change,) = compare_compilations(compilation(kernel(registers=168)), compilation(kernel(spills=206))).kernels
    told = {each.name: each for each in change.changes}
    assert str(told["registers"]) == "registers 168 → 96"
    assert str(told["spill bytes"]) == "spill bytes 0 → 412"
    assert told["spill bytes"].trend is Trend.WORSE
    assert told["registers"].trend is Trend.CHANGED
    assert told["occupancy %"].trend is Trend.BETTER
    assert (told["occupancy %"].old, told["occupancy %"].new) == (18.8, 31.2)  # 3 and 5 blocks of 4 warps in 64
    assert change.fate is KernelFate.CHANGED


def test_kernels_are_matched_by_specialisation_first() -> None:
    old = compilation(kernel(specialisation="N=1", registers=10), kernel(specialisation="N=2", registers=20))
    new = compilation(
        kernel(specialisation="N=2", registers=20), kernel(specialisation="N=3", registers=30), kernel("other")
    )
    found = compare_compilations(old, new).kernels
    assert [(c.name, c.old and c.old.specialisation, c.new and c.new.specialisation) for c in found] == [
        ("k", "N=2", "N=2"), ("k", "N=1", "N=3"), ("other", None, "N=1"),
    ]  # fmt: skip
    assert [change.fate for change in found] == [KernelFate.SAME, KernelFate.CHANGED, KernelFate.ADDED]
    gone = compare_compilations(new, old).kernels
    assert gone[-1].fate is KernelFate.REMOVED


def test_other_architectures_are_not_compared_and_other_versions_are_told() -> None:
    assert "sm_100a" in compare_compilations(compilation(), compilation(architecture="sm_100a")).refusal
    told = compare_compilations(compilation(), compilation(versions={"triton": "3.6.0"}))
    assert told.notes == ("compiled by other versions: triton 3.7.1 → 3.6.0",)
