"""The CuTe DSL kernels of the NVFP4 boards, as far as a machine without a Blackwell card can tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import ROOT, load_submission

pytest.importorskip("cutlass")

BLACKWELL = [
    ("nvfp4_gemm", "nvfp4_gemm_cute.py"),
    ("nvfp4_gemm", "nvfp4_gemm_helion.py"),
    ("nvfp4_gemm", "nvfp4_gemm_triton.py"),
    ("nvfp4_dual_gemm", "dual_gemm_cute.py"),
    ("nvfp4_dual_gemm", "dual_gemm_triton.py"),
    ("nvfp4_dual_gemm", "dual_gemm_opt_cute.py"),
    ("nvfp4_group_gemm", "group_gemm_cute.py"),
    ("nvfp4_group_gemm", "group_gemm_cute2.py"),
    ("nvfp4_group_gemm", "group_gemm_cute4.py"),
    ("nvfp4_group_gemm", "group_gemm_cute5.py"),
    ("nvfp4_group_gemm", "group_gemm_triton.py"),
]


def test_first_tiles_of_groups() -> None:
    module = load_submission("nvfp4_group_gemm", "group_gemm_cute4.py")
    assert module.first_tiles(((128, 256, 512), (129, 384, 256), (8, 128, 256))) == [0, 2, 8, 9]


def test_pointers_alternate_between_operands_and_results() -> None:
    module = load_submission("nvfp4_group_gemm", "group_gemm_cute4.py")
    made = module.pointers([32 * i for i in range(10)])
    assert [pointer.dtype for pointer in made] == [*module.TYPES, *module.TYPES]


def test_metadata_of_groups() -> None:
    """Each group's sizes, first tile and addresses, whichever way they are passed."""
    sizes = [(128, 256, 512), (129, 384, 256), (8, 128, 256)]
    table = load_submission("nvfp4_group_gemm", "group_gemm_cute.py").size_table(sizes)
    assert table == [[128, 256, 512, 0], [129, 384, 256, 2], [8, 128, 256, 8], [0, 0, 0, 9]]
    for file in ("group_gemm_cute2.py", "group_gemm_cute5.py"):
        module = load_submission("nvfp4_group_gemm", file)
        flat = module.flat_metadata([(*size, *range(10 * g, 10 * g + 5)) for g, size in enumerate(sizes)])
        assert len(flat) == module.FIELDS * len(sizes)
        second = flat[module.FIELDS : 2 * module.FIELDS]
        assert second == [129, 384, 256, 2, 10, 11, 12, 13, 14]
        assert [second[field] for field in (module.M, module.K, module.FIRST_TILE, module.C)] == [129, 256, 2, 14]


@pytest.mark.parametrize("count", [1, 7, 64])
def test_room_for_tensor_maps_is_aligned(count: int) -> None:
    import torch

    for file in ("group_gemm_cute.py", "group_gemm_cute2.py", "group_gemm_cute5.py"):
        module = load_submission("nvfp4_group_gemm", file)
        room = module.room_for_maps(count, torch.device("cpu"))
        assert room.data_ptr() % module.MAP_BYTES == 0
        assert room.numel() * 8 == count * module.MAP_BYTES


def test_persistent_tiles_are_covered_once() -> None:
    module = load_submission("nvfp4_dual_gemm", "dual_gemm_opt_cute.py")
    taken = [tile for cta in range(148) for tile in module.tiles_of(cta, 148, 256)]
    assert sorted(taken) == list(range(256))


def test_sums_that_leave_no_room_for_scales_are_refused() -> None:
    module = load_submission("nvfp4_dual_gemm", "dual_gemm_opt_cute.py")
    with pytest.raises(ValueError, match="leave no room for scales"):
        module.DualGemm(tile=(128, 128, 256), buffers=2)


@pytest.mark.slow
@pytest.mark.parametrize(("board", "file"), BLACKWELL)
def test_compiles_for_blackwell_with_fp4_mma_and_no_spills(
    harness_compile, board: str, file: str, tmp_path: Path
) -> None:
    """The first benchmark case; a kernel that breaks a limit of tensor or shared memory has another exit status."""
    path = ROOT / "submissions" / board / file
    done = harness_compile(path, "--arch", "sm_100a", "--case", "0", "--sass", tmp_path / "sass")
    assert done.return_value == 0, done.stdout[-2000:] + done.stderr[-2000:] + repr(done.exception)
    listings = [*(tmp_path / "sass").glob("*.sass")]
    assert listings
    for listing in listings:
        sass = listing.read_text()
        assert "UTCOMMA" in sass  # tcgen05.mma of FP4 with block scales
        assert "UTMALDG" in sass
        assert "STL" not in sass
