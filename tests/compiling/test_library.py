"""Every kernel of the library, compiled without a device: one that is good, one that spills, one over a limit, one that
does not compile, one that branches on the device, per DSL."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from compiling_helpers import need, only_kernel, unsurvived

from harness.compiling.architectures import find_architecture
from harness.compiling.nvcc import CudaCode, compile_cuda
from harness.compiling.record import CompileStatus, Dsl, ProblemKind
from harness.compiling.worker import cuda_hooks
from harness.compiling.worker.collect import Collector

DSLS = {
    "triton": Dsl.TRITON,
    "gluon": Dsl.GLUON,
    "helion": Dsl.HELION,
    "cute": Dsl.CUTE,
    "nvrtc": Dsl.NVRTC,
    "plain": Dsl.CUDA,
}


# ptxas tells the same of a kernel whether Helion wrote it or somebody in Triton; Helion is imported for each anew.
OF_PTXAS = [pytest.param(dsl, marks=[pytest.mark.thorough] if dsl == "helion" else []) for dsl in DSLS]


def file_of(dsl: str, what: str) -> str:
    return f"{dsl}_{what}.{'cu' if dsl == 'plain' else 'py'}"


@pytest.mark.parametrize("dsl", DSLS)
def test_a_good_kernel_compiles(compile_kernel, dsl: str) -> None:
    compiled = compile_kernel(file_of(dsl, "good"))
    kernel = only_kernel(compiled)
    assert compiled.compilation.status is CompileStatus.COMPILED
    assert kernel.dsl is DSLS[dsl]
    assert kernel.source is not None
    assert kernel.source.file == file_of(dsl, "good")
    assert kernel.resources.spill_bytes == 0
    assert kernel.occupancy is not None
    assert 0 < kernel.occupancy.fraction <= 1
    assert sum(kernel.instructions.values()) > 10
    assert compiled.artefacts[kernel.files["cubin"]].startswith(b"\x7fELF")
    assert b".entry" in compiled.artefacts[kernel.files["ptx"]]
    assert b"EXIT" in compiled.artefacts[kernel.files["sass"]]


@pytest.mark.parametrize("dsl", OF_PTXAS)
def test_spills_are_told_in_bytes(compile_kernel, dsl: str) -> None:
    compiled = compile_kernel(file_of(dsl, "spill"))
    kernel = only_kernel(compiled)
    assert compiled.compilation.status is CompileStatus.COMPILED  # a spill is dear, not wrong
    assert kernel.resources.spill_exact
    assert kernel.resources.spill_store_bytes > 0
    assert kernel.resources.spill_load_bytes > 0
    assert kernel.instructions["local"] > 0


@pytest.mark.parametrize("dsl", OF_PTXAS)
def test_resources_beyond_the_architecture_are_errors(compile_kernel, dsl: str) -> None:
    compiled = compile_kernel(file_of(dsl, "over"))
    kernel = only_kernel(compiled)
    assert compiled.compilation.status is CompileStatus.FAILED
    assert kernel.resources.shared_bytes > 232448
    assert ProblemKind.OVER_LIMIT in {problem.kind for problem in kernel.problems}
    assert "232,448 a block" in kernel.problems[0].message
    assert kernel.occupancy is not None
    assert kernel.occupancy.blocks == 0


ERROR_LINES = {"triton": 8, "gluon": 11, "helion": 11, "cute": 9, "nvrtc": 7, "plain": 2, "inline": 6}


@pytest.mark.parametrize("dsl", ERROR_LINES)
def test_a_compile_error_names_the_authors_line(compile_kernel, dsl: str) -> None:
    compiled = compile_kernel(file_of(dsl, "error"))
    (problem,) = unsurvived(compiled.compilation)
    assert compiled.compilation.status is CompileStatus.FAILED
    assert not compiled.compilation.kernels
    assert problem.kind is ProblemKind.COMPILE_ERROR
    assert str(problem.source) == f"{file_of(dsl, 'error')}:{ERROR_LINES[dsl]}"


# What each branching kernel shows on either side of capability 10.0: (sm_90a, sm_100a).
BRANCHES = {
    "triton": (lambda kernel: kernel.specialisation.split()[0], "N=512", "N=2048"),
    "gluon": (lambda kernel: kernel.specialisation.split()[0], "N=256", "N=1024"),
    "helion": (lambda kernel: kernel.resources.threads, 128, 256),
    "cute": (lambda kernel: kernel.resources.threads, 128, 512),
    "nvrtc": (lambda kernel: kernel.resources.static_shared_bytes, 4096, 8192),
    "plain": (lambda kernel: kernel.resources.static_shared_bytes, 4096, 8192),
}


@pytest.mark.parametrize("dsl", BRANCHES)
def test_code_that_asks_the_device_hears_the_asked_architecture(compile_kernel, dsl: str) -> None:
    figure, on_hopper, on_blackwell = BRANCHES[dsl]
    assert figure(only_kernel(compile_kernel(file_of(dsl, "branch"), "sm_90a"))) == on_hopper
    assert figure(only_kernel(compile_kernel(file_of(dsl, "branch"), "sm_100a"))) == on_blackwell


def test_a_hopper_kernel_uses_warp_group_multiplies_and_tma(compile_kernel) -> None:
    kernel = only_kernel(compile_kernel("gluon_wgmma.py", "sm_90a"))
    assert kernel.instructions["wgmma"] > 0
    assert kernel.instructions["tma"] == 2  # two loads
    assert kernel.resources.tensor_memory_columns == 0


def test_a_blackwell_kernel_uses_tensor_memory(compile_kernel) -> None:
    kernel = only_kernel(compile_kernel("gluon_good.py"))
    assert kernel.instructions["tcgen05"] > 0
    assert kernel.instructions["tma"] == 2
    assert kernel.resources.tensor_memory_columns == 128  # an accumulator of 128 × 128 float32
    assert kernel.resources.dynamic_shared_bytes >= 2 * 128 * 64 * 2  # both operands


def test_a_compiler_that_aborts_is_the_kernels_error(compile_kernel) -> None:
    compiled = compile_kernel("gluon_wgmma.py", "sm_100a")  # Blackwell has no warp-group multiply
    (problem,) = unsurvived(compiled.compilation)
    assert problem.kind is ProblemKind.COMPILE_ERROR
    assert problem.kernel == "tile"
    assert str(problem.source) == "gluon_wgmma.py:11"


def test_host_tensor_descriptors_become_tma(compile_kernel) -> None:
    kernel = only_kernel(compile_kernel("triton_descriptor.py"))
    assert kernel.instructions["tma"] >= 3
    assert kernel.resources.threads == 256


def test_an_autotuners_candidates_are_all_reported(compile_kernel) -> None:
    compilation = compile_kernel("triton_autotuned.py").compilation
    assert compilation.status is CompileStatus.COMPILED
    assert [kernel.autotuned for kernel in compilation.kernels] == [True] * 3
    left_out = [problem for problem in compilation.every_problem if problem.survived]
    assert any("num_warps: 64" in problem.message for problem in left_out)


def test_a_launch_at_run_time_gives_block_and_shared_memory(compile_kernel) -> None:
    kernel = only_kernel(compile_kernel("nvrtc_good.py"))
    assert (kernel.resources.threads, kernel.resources.dynamic_shared_bytes, kernel.launches) == (192, 768, 1)


def test_a_launch_in_the_source_gives_the_block(compile_kernel) -> None:
    kernel = only_kernel(compile_kernel("plain_good.cu"))
    assert kernel.resources.threads == 256  # dim3 block(16, 16)
    assert kernel.resources.static_shared_bytes == 1024
    assert "block size as the launch in the source has it" in kernel.notes


def test_cluster_and_shared_memory_of_a_cute_launch(compile_kernel) -> None:
    kernel = only_kernel(compile_kernel("cute_good.py"))
    assert kernel.resources.cluster == (2, 1, 1)
    assert kernel.resources.dynamic_shared_bytes >= 256 * 4
    assert kernel.resources.threads == 256


def test_a_large_case_is_followed_by_shape_alone(compile_kernel) -> None:
    compilation = compile_kernel("triton_good.py", "sm_90a", (0, 1, 2)).compilation
    assert compilation.status is CompileStatus.COMPILED
    cases = {kernel.cases for kernel in compilation.kernels}
    assert cases == {(0, 1), (2,)}  # 300 × 260 × 131 is not a multiple of 16: a specialisation of its own
    assert max(case.seconds for case in compilation.cases) < 30  # 65536 × 16384 float32 is 4 GiB


def test_reading_what_a_kernel_computed_is_told_as_a_guess(compile_kernel) -> None:
    compilation = compile_kernel("reads_values.py").compilation
    (problem,) = unsurvived(compilation)
    assert compilation.status is CompileStatus.NOT_FOLLOWED
    assert problem.kind is ProblemKind.GUESS
    assert str(problem.source) == "reads_values.py:15"
    assert [kernel.specialisation.split()[0] for kernel in compilation.kernels] == ["N=256", "N=64"]


def test_no_kernels_says_what_was_looked_for(compile_kernel) -> None:
    compilation = compile_kernel("torch_only.py").compilation
    (problem,) = unsurvived(compilation)
    assert problem.kind is ProblemKind.NO_KERNELS
    assert "CuTe DSL" in problem.message
    assert compilation.cases[0].library_calls == {"_to_copy": 2, "mm": 1}


@pytest.mark.parametrize("text", ["__global__ void kernel() {}", "__global__ void kernel() { undefined(); }"])
def test_a_source_is_compiled_once_for_all_cases(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("inline")
    compiled = []

    def counted(path: Path, *rest: Any, **options: Any) -> CudaCode:
        compiled.append(path.read_text())
        return compile_cuda(path, *rest, **options)

    monkeypatch.setattr(cuda_hooks, "compile_cuda", counted)
    source = tmp_path / "code.cu"
    collector = Collector(find_architecture("sm_90a"), tmp_path, {})
    told = []
    for case in range(3):
        collector.case = case
        source.write_text(text)
        try:
            told.append(cuda_hooks.compile_for(collector, source, options=["-O1"], include_dirs=[]).cubin)
        except cuda_hooks.CudaBuildError as error:
            told.append(str(error))
    assert compiled == [text]
    assert len(set(told)) == 1
    source.write_text(text + "// another")
    with contextlib.suppress(cuda_hooks.CudaBuildError):
        cuda_hooks.compile_for(collector, source, options=["-O1"], include_dirs=[])
    assert len(compiled) == 2


def test_a_kernel_that_two_workers_met_is_one(compile_kernel) -> None:
    """Each compiles the source in a folder of its own, which the line table names."""
    assert only_kernel(compile_kernel("inline_good.py", cases=(0, 1))).dsl is Dsl.CUDA
