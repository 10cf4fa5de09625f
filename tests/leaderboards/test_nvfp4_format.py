"""The NVFP4 helpers that the three boards share: codes, scales, their order in memory, products and the comparison."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from boards_on_disk import ROOT

_spec = importlib.util.spec_from_file_location("nvfp4_shared", ROOT / "leaderboards" / "common" / "nvfp4.py")
nvfp4 = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(nvfp4)

EVERY_VALUE = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]


def codes(*rows: list[int]) -> torch.Tensor:
    """Bytes [rows, k/2] from four-bit codes, the first of a pair in the low bits."""
    return torch.tensor([[low | high << 4 for low, high in zip(r[::2], r[1::2], strict=True)] for r in rows]).byte()


def e4m3(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows).to(torch.float8_e4m3fn)


def test_decode_by_hand() -> None:
    # One block of all sixteen codes in order under scale 2, one of code 5 (3.0) under scale 0.0625.
    packed = codes([*range(16), *[5] * 16])
    decoded = nvfp4.decode(packed.view(torch.float4_e2m1fn_x2), e4m3([2.0, 0.0625]))
    assert decoded.tolist() == [[2 * v for v in EVERY_VALUE] + [0.1875] * 16]


def test_decode_takes_the_low_four_bits_first() -> None:
    decoded = nvfp4.decode(torch.tensor([[0x2F] * 8], dtype=torch.uint8), None)  # low: 15 = -6, high: 2 = 1
    assert decoded.tolist() == [[-6.0, 1.0] * 8]


def test_product_by_hand() -> None:
    # A row: sixteen 0.5 under scale 3; B rows: sixteen 6 under 1, and sixteen -1 under 0.5.
    a, b = codes([1] * 16), codes([7] * 16, [10] * 16)
    out = nvfp4.product(a[..., None], b[..., None], e4m3([3.0])[..., None], e4m3([1.0], [0.5])[..., None])
    assert out[..., 0].tolist() == [[16 * 1.5 * 6, 16 * 1.5 * -0.5]]


def test_product_in_blocks_is_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = nvfp4.seeded_generator(3)
    draw = nvfp4.integer_scales(0, 3, generator)
    a, b = nvfp4.random_fp4(40, 96, 2, generator), nvfp4.random_fp4(56, 96, 2, generator)
    (sfa, _), (sfb, _) = nvfp4.scale_pair(40, 96, 2, draw), nvfp4.scale_pair(56, 96, 2, draw)
    whole = nvfp4.product(a, b, sfa, sfb)
    monkeypatch.setattr(nvfp4, "_DECODED_AT_ONCE", 96 * 10)  # ten rows of B at a time; 56 is no multiple of it
    assert torch.equal(nvfp4.product(a, b, sfa, sfb), whole)
    assert whole.stride() == (56, 1, 40 * 56)


@pytest.mark.parametrize(("rows", "k"), [(128, 64), (300, 192), (72, 208)])
def test_reordered_scales_element_by_element(rows: int, k: int) -> None:
    batch = 2
    draw = nvfp4.uniform_scales(nvfp4.seeded_generator(rows))
    plain, reordered = nvfp4.scale_pair(rows, k, batch, draw)
    row_tiles, scale_tiles = -(-rows // 128), -(-k // 64)
    assert plain.shape == (rows, k // 16, batch)
    assert plain.stride() == (k // 16, 1, rows * k // 16)
    assert reordered.shape == (32, 4, row_tiles, 4, scale_tiles, batch)
    assert reordered.stride() == (16, 4, 512 * scale_tiles, 1, 512, 512 * row_tiles * scale_tiles)
    assert reordered.untyped_storage().nbytes() == batch * row_tiles * scale_tiles * 512
    there, here = reordered.view(torch.uint8).tolist(), plain.view(torch.uint8).tolist()
    for i in range(rows):
        for j in range(k // 16):
            for b in range(batch):
                assert there[i % 32][(i % 128) // 32][i // 128][j % 4][j // 4][b] == here[i][j][b]


def test_padding_holds_valid_scales_that_are_not_zero() -> None:
    _, reordered = nvfp4.scale_pair(8, 16, 1, nvfp4.integer_scales(1, 2, nvfp4.seeded_generator(0)))
    assert set(reordered.float().flatten().tolist()) == {1.0, 2.0}


def test_random_codes() -> None:
    generator = nvfp4.seeded_generator(0)
    every = nvfp4.decode(nvfp4.random_fp4(128, 256, 1, generator)[..., 0], None)
    counts = {value: int((every == value).sum()) for value in set(EVERY_VALUE)}
    # 32768 draws of sixteen codes: 2048 each, 4096 for the two zeros; six standard deviations are about 260.
    assert sum(counts.values()) == every.numel()
    assert all(abs(count - (4096 if value == 0 else 2048)) < 400 for value, count in counts.items())
    small = nvfp4.decode(nvfp4.random_fp4(128, 256, 1, generator, nvfp4.SMALL_CODES)[..., 0], None)
    assert set(small.flatten().tolist()) == {-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5}


def test_random_codes_are_a_k_contiguous_view() -> None:
    codes = nvfp4.random_fp4(24, 32, 3, nvfp4.seeded_generator(0))
    assert codes.dtype == torch.float4_e2m1fn_x2
    assert codes.shape == (24, 16, 3)
    assert codes.stride() == (16, 1, 24 * 16)


@pytest.mark.parametrize("k", [0, 8, 250])
def test_k_that_is_no_whole_number_of_blocks(k: int) -> None:
    with pytest.raises(ValueError, match=f"k = {k} is not a positive multiple of 16"):
        nvfp4.random_fp4(8, k, 1, nvfp4.seeded_generator(0))


def test_full_fp32_puts_settings_back() -> None:
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    before = [backend.fp32_precision for backend in backends]
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with nvfp4.full_fp32():
            assert [backend.fp32_precision for backend in backends] == ["ieee", "ieee"]
        assert [backend.fp32_precision for backend in backends] == ["tf32", before[1]]
        with pytest.raises(RuntimeError), nvfp4.full_fp32():
            torch.zeros(2, 3) @ torch.zeros(2, 3)
        assert [backend.fp32_precision for backend in backends] == ["tf32", before[1]]
    finally:
        torch.backends.cuda.matmul.fp32_precision = before[0]


def test_mismatch_names_count_place_and_values() -> None:
    expected = torch.arange(24, dtype=torch.float16).reshape(2, 3, 4).permute(1, 2, 0)
    output = expected.clone()
    output[1, 2, 0] = 8
    output[2, 0, 1] = float("nan")
    assert nvfp4.mismatch(output, expected) == (
        "2 of 24 elements differ by more than 0.001 + 0.001·|expected|; the first, at (1, 2, 0), is 8.0, expected 6.0"
    )


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (1000.0, True),
        (1001.0, True),  # 1.0 off, 1.001 allowed
        (1001.5, False),
        (float("nan"), False),
        (float("inf"), False),
    ],
)
def test_mismatch_tolerance(value: float, right: bool) -> None:
    expected = torch.full((1, 1), 1000, dtype=torch.float16)
    assert (nvfp4.mismatch(torch.full((1, 1), value, dtype=torch.float16), expected) == "") is right


def test_mismatch_of_non_finite_expectations() -> None:
    expected = torch.tensor([float("nan"), float("inf")], dtype=torch.float16)
    assert nvfp4.mismatch(expected.clone(), expected).startswith("1 of 2 elements")  # the infinity is itself
    assert nvfp4.mismatch(torch.zeros_like(expected), expected).startswith("2 of 2 elements")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (None, "a torch.Tensor was expected, got NoneType"),
        (torch.zeros(2, 3), "dtype is torch.float32, expected torch.float16"),
        (torch.zeros(3, 2, dtype=torch.float16), "shape is [3, 2], expected [2, 3]"),
        (torch.zeros(2, 3, dtype=torch.float16, device="meta"), "device is meta, expected cpu"),
    ],
)
def test_mismatch_of_another_kind_of_tensor(output: object, message: str) -> None:
    assert nvfp4.mismatch(output, torch.zeros(2, 3, dtype=torch.float16)) == message
