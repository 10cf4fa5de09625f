"""The Hopper kernels of the NVFP4 boards, on the CPU: their CUDA source runs on an emulated cluster (emulator.h)."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from emulated import ROOT, Emulated, load_submission

FILES = {
    "nvfp4_gemm": "nvfp4_gemm_hopper.py",
    "nvfp4_dual_gemm": "dual_gemm_hopper.py",
    "nvfp4_group_gemm": "group_gemm_hopper.py",
}
H200_MULTIPROCESSORS = 132
MOST_SHARED_BYTES = 232_448  # of a block, on Hopper
REGISTERS = 65_536

emulates = pytest.mark.skipif(
    shutil.which("g++") is None or platform.machine() != "x86_64", reason="emulation needs g++ on x86-64"
)

_spec = importlib.util.spec_from_file_location("nvfp4_of_kernels", ROOT / "leaderboards" / "common" / "nvfp4.py")
assert _spec is not None
assert _spec.loader is not None
nvfp4 = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(nvfp4)


@pytest.fixture(scope="module")
def submissions() -> dict[str, ModuleType]:
    return {board: load_submission(board, file) for board, file in FILES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulated")


def operand(rows: int, k: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes [rows, k/2], scales in [0, 1) plain and reordered, without the batch."""
    scales, reordered = nvfp4.scale_pair(rows, k, 1, nvfp4.uniform_scales(generator))
    return nvfp4.random_fp4(rows, k, 1, generator)[..., 0], scales[..., 0], reordered[..., 0]


def product(a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor, sfb: torch.Tensor) -> torch.Tensor:
    return nvfp4.product(*(x.unsqueeze(-1) for x in (a, b, sfa, sfb)))[..., 0]


def guarded(m: int, n: int) -> torch.Tensor:
    """A C [m, n] of NaNs with eight more rows behind it, which nothing may write."""
    return torch.full((m + 8, n), torch.nan, dtype=torch.float16)


def assert_right(c: torch.Tensor, want: torch.Tensor) -> None:
    m = want.shape[0]
    torch.testing.assert_close(c[:m], want.half(), rtol=1e-3, atol=1e-3)
    assert c[m:].isnan().all()


def test_common_parts_are_the_same(submissions: dict[str, ModuleType]) -> None:
    gemm, *others = submissions.values()
    for other in others:
        for part in ("TYPES", "PRIMITIVES", "PIPELINE"):
            assert getattr(other, part) == getattr(gemm, part)
        assert other.wgmma(128) == gemm.wgmma(128)


GEMMS = [
    ("narrow", {}, (128, 128, 256)),
    ("narrow", {"split": 2, "one_fence": 1, "tokens": 64}, (200, 192, 768)),
    ("wide", {"split": 4}, (72, 256, 1152)),
    ("wide", {"split": 2, "producers": 2, "one_fence": 1, "raw_a_stages": 2}, (136, 320, 1152)),
]


@emulates
@pytest.mark.parametrize(("base", "changes", "size"), GEMMS)
def test_gemm(
    submissions: dict[str, ModuleType], folder: Path, base: str, changes: dict[str, int], size: tuple[int, int, int]
) -> None:
    module = submissions["nvfp4_gemm"]
    config = {"narrow": module.NARROW, "wide": module.WIDE}[base]._replace(**changes)
    emulated = Emulated(module, config, config.source, "nvfp4_gemm", folder)
    m, n, k = size
    generator = torch.Generator().manual_seed(m + n + k)
    a, sfa, ra = operand(m, k, generator)
    b, sfb, rb = operand(n, k, generator)
    blocks = -(-m // config.tokens) * -(-n // config.columns) * config.split
    for lazy in (False, True):
        c = guarded(m, n)
        assert emulated(blocks, [a, b, ra, rb, c, m, n, k], lazy=lazy) == ""
        assert_right(c, product(a, b, sfa, sfb))


@emulates
def test_decoding_is_exact_for_every_code_and_scale(submissions: dict[str, ModuleType], folder: Path) -> None:
    """With A the identity, C is B as it was decoded: all codes times all finite scales, subnormal and negative ones."""
    module = submissions["nvfp4_gemm"]
    config, m, n, k = module.NARROW, 128, 256, 128
    codes = torch.arange(k).remainder(16).to(torch.uint8)
    b = (codes[0::2] | codes[1::2] << 4).repeat(n, 1)
    scales = torch.arange(256, dtype=torch.uint8)
    scales[(scales & 0x7F) == 0x7F] = 0  # NaN
    sfb = scales.view(n, 1).repeat(1, k // 16)
    identity = torch.zeros(m, k, dtype=torch.uint8).fill_diagonal_(2)  # code 2 is 1.0
    a = identity[:, 0::2] | identity[:, 1::2] << 4
    one = torch.full((1, m, k // 16), 0x38, dtype=torch.uint8)
    ra = nvfp4.reorder_scales(one)[..., 0]
    rb = nvfp4.reorder_scales(sfb.unsqueeze(0))[..., 0]
    c = guarded(m, n)
    emulated = Emulated(module, config, config.source, "nvfp4_gemm", folder)
    assert emulated(n // config.columns, [a, b, ra, rb, c, m, n, k], lazy=True) == ""
    values = torch.tensor([*nvfp4.MAGNITUDES, *(-x for x in nvfp4.MAGNITUDES)])[codes.int()]
    want = values.view(k, 1) * scales.view(torch.float8_e4m3fn).float().view(1, n)
    assert torch.equal(c[:m].float(), want)


@emulates
@pytest.mark.parametrize(("base", "split", "size"), [("wide", 1, (136, 192, 384)), ("narrow", 2, (72, 128, 640))])
def test_dual_gemm(
    submissions: dict[str, ModuleType], folder: Path, base: str, split: int, size: tuple[int, int, int]
) -> None:
    module = submissions["nvfp4_dual_gemm"]
    config = {"narrow": module.NARROW, "wide": module.WIDE}[base]._replace(split=split)
    emulated = Emulated(module, config, config.source, "nvfp4_dual_gemm", folder)
    m, n, k = size
    generator = torch.Generator().manual_seed(k)
    (a, sfa, ra), (b1, sfb1, rb1), (b2, sfb2, rb2) = (operand(rows, k, generator) for rows in (m, n, n))
    want = torch.nn.functional.silu(product(a, b1, sfa, sfb1)) * product(a, b2, sfa, sfb2)
    blocks = -(-m // config.tokens) * -(-n // config.columns) * config.split
    for lazy in (False, True):
        c = guarded(m, n)
        assert emulated(blocks, [a, b1, b2, ra, rb1, rb2, c, m, n, k], lazy=lazy) == ""
        assert_right(c, want)


@emulates
@pytest.mark.parametrize(("base", "split"), [("narrow", 1), ("wide", 2)])
def test_group_gemm(submissions: dict[str, ModuleType], folder: Path, base: str, split: int) -> None:
    """Ragged groups, one of more rows than a tile."""
    module = submissions["nvfp4_group_gemm"]
    config = {"narrow": module.NARROW, "wide": module.WIDE}[base]._replace(split=split)
    sizes = [(136, 128, 768), (72, 384, 512), (8, 64, 256)]
    emulated = Emulated(module, config, config.source(len(sizes)), "nvfp4_group_gemm", folder)
    generator = torch.Generator().manual_seed(1)
    arguments: list[Any] = []
    results = []
    for m, n, k in sizes:
        a, sfa, ra = operand(m, k, generator)
        b, sfb, rb = operand(n, k, generator)
        c = guarded(m, n)
        arguments += [a, b, ra, rb, c, m, n, k]
        results.append((c, product(a, b, sfa, sfb)))
    assert emulated(module.tiles_of(config, sizes) * split, arguments, lazy=True) == ""
    for c, want in results:
        assert_right(c, want)


def candidates(module: ModuleType) -> list[Any]:
    unmeasured = [
        base._replace(split=split, producers=2, one_fence=1, raw_a_stages=2)
        for base in (module.NARROW, module.WIDE)
        for split in (1, 2, 4)
    ]
    return [*module.CONFIGS, *unmeasured]


def test_every_configuration_fits_a_multiprocessor(submissions: dict[str, ModuleType]) -> None:
    for module in submissions.values():
        for config in candidates(module):
            assert config.shared_bytes <= MOST_SHARED_BYTES
            at_entry = REGISTERS // config.threads // 8 * 8 * config.threads
            given = {1: 128 * 72 + 256 * 216, 2: 256 * 56 + 256 * 200}[config.producers]
            even = config.mi == 1 and config.producers == 1
            assert even or given <= at_entry
            # A producer's chunk is two stages; the producers' chunks must not share them.
            assert config.a_stages % (2 * config.producers) == 0


def test_plans_of_the_benchmarks(submissions: dict[str, ModuleType]) -> None:
    """What measurements on an H200 found fastest."""

    def chosen(board: str, *size: Any) -> tuple[int, int]:
        config = submissions[board].plan(*size, H200_MULTIPROCESSORS)
        return config.mi, config.split

    assert chosen("nvfp4_gemm", 128, 7168, 16384) == (2, 4)
    assert chosen("nvfp4_gemm", 128, 4096, 7168) == (2, 4)
    assert chosen("nvfp4_gemm", 128, 7168, 2048) == (1, 2)
    assert chosen("nvfp4_dual_gemm", 256, 4096, 7168) == (2, 2)
    assert chosen("nvfp4_dual_gemm", 512, 4096, 7168) == (2, 1)
    assert chosen("nvfp4_dual_gemm", 256, 3072, 4096) == (2, 2)
    assert chosen("nvfp4_dual_gemm", 512, 3072, 7168) == (2, 1)


def test_a_plan_never_splits_more_than_there_is(submissions: dict[str, ModuleType]) -> None:
    for k in (128, 256, 384, 512):
        assert submissions["nvfp4_gemm"].plan(128, 128, k, H200_MULTIPROCESSORS).split <= k // 128
        group = submissions["nvfp4_group_gemm"].plan(((96, 128, 7168), (128, 256, k)), H200_MULTIPROCESSORS)
        assert group.split <= k // 128


@pytest.mark.parametrize(("n", "k"), [(128, 192), (96, 256), (1 << 18, 1 << 15)])
def test_sizes_that_the_kernel_cannot_do_are_named(submissions: dict[str, ModuleType], n: int, k: int) -> None:
    for module in submissions.values():
        with pytest.raises(ValueError, match=f"n = {n}, k = {k}: this kernel wants"):
            module.check(n, k)
