"""The Hopper kernels of the NVFP4 boards, on the CPU: their CUDA source runs on an emulated cluster (emulator.h)."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import yaml
from emulated import ROOT, Emulated, load_submission
from hypothesis import given
from hypothesis import strategies as st

FILES = {
    "nvfp4_gemm": "nvfp4_gemm_hopper.py",
    "nvfp4_dual_gemm": "dual_gemm_hopper.py",
    "nvfp4_group_gemm": "group_gemm_hopper.py",
}
H200_MULTIPROCESSORS = 132
MOST_SHARED_BYTES = 232_448  # of a block, on Hopper

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
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Of the libraries that are compiled, for all processes that share these tests."""
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if hasattr(request.config, "workerinput") else base) / "emulated"
    made.mkdir(exist_ok=True)
    return made


def operand(rows: int, k: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes [rows, k/2], scales in [0, 1) plain and reordered, without the batch."""
    scales, reordered = nvfp4.scale_pair(rows, k, 1, nvfp4.uniform_scales(generator))
    return nvfp4.random_fp4(rows, k, 1, generator)[..., 0], scales[..., 0], reordered[..., 0]


def product(a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor, sfb: torch.Tensor) -> torch.Tensor:
    return nvfp4.product(*(x.unsqueeze(-1) for x in (a, b, sfa, sfb)))[..., 0]


def guarded(m: int, n: int) -> torch.Tensor:
    """A C [m, n] of NaNs with eight more rows behind it, which nothing may write."""
    return torch.full((m + 8, n), torch.nan, dtype=torch.float16)


def workspace_for(module: ModuleType, config: Any, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the module allocates, for so many blocks."""
    counters = torch.zeros(blocks * module.COUNTERS_APART, dtype=torch.int32)
    return counters, torch.empty(blocks * 2 * config.part_bytes // 4)


NO_WORKSPACE = (torch.empty(0), torch.empty(0))


def assert_right(c: torch.Tensor, want: torch.Tensor) -> None:
    m = want.shape[0]
    torch.testing.assert_close(c[:m], want.half(), rtol=1e-3, atol=1e-3)
    assert c[m:].isnan().all()


def test_common_parts_are_the_same(submissions: dict[str, ModuleType]) -> None:
    gemm, *others = submissions.values()
    for other in others:
        for part in ("TYPES", "PRIMITIVES", "PIPELINE"):
            assert getattr(other, part) == getattr(gemm, part)
        assert other.wgmma() == gemm.wgmma()
        assert other.Config._fields == gemm.Config._fields
        assert [*map(tuple, other.CONFIGS)] == [*map(tuple, gemm.CONFIGS)]


def configuration(module: ModuleType, mi: int, split: int = 1, stream: int = 0, helped: int = 0) -> Any:
    """The one of those that the module chooses from."""
    [config] = [c for c in module.CONFIGS if (c.mi, c.split, c.stream, c.helped) == (mi, split, stream, helped)]
    return config


# Blocks of one chunk, of as many as stages are for, and of more than there are slots for.
GEMMS = [
    (1, 1, (128, 128, 256)),
    (1, 1, (200, 64, 1152)),
    (1, 2, (72, 128, 256)),
    (1, 2, (200, 192, 768)),
    (1, 2, (136, 192, 1664)),
    (2, 1, (136, 320, 640)),
    (2, 2, (136, 320, 1152)),
    (2, 4, (72, 256, 512)),
    (2, 4, (72, 256, 2432)),
]


@emulates
@pytest.mark.parametrize(("mi", "split", "size"), GEMMS)
def test_gemm(
    submissions: dict[str, ModuleType], folder: Path, mi: int, split: int, size: tuple[int, int, int]
) -> None:
    module = submissions["nvfp4_gemm"]
    config = configuration(module, mi, split)
    emulated = Emulated(module, config, config.source, "nvfp4_gemm", folder)
    m, n, k = size
    generator = torch.Generator().manual_seed(m + n + k)
    a, sfa, ra = operand(m, k, generator)
    b, sfb, rb = operand(n, k, generator)
    blocks = config.tiles(m, n) * split
    for lazy, skewed in ((False, False), (True, False), (False, True), (True, True)):
        c = guarded(m, n)
        assert emulated(blocks, [a, b, ra, rb, c, *NO_WORKSPACE, m, n, k, 0, 0], lazy=lazy, skewed=skewed) == ""
        assert_right(c, product(a, b, sfa, sfb))


def streamed(
    module: ModuleType,
    emulated: Emulated,
    workspace: tuple[torch.Tensor, torch.Tensor],
    size: tuple[int, int, int],
    blocks: int,
    lazy: bool,
) -> None:
    """One launch of stream-K, with new operands; C is right, and the counters are back at 0. Helped, the blocks are
    multiprocessors."""
    m, n, k = size
    generator = torch.Generator().manual_seed(m + n + k + blocks + lazy)
    a, sfa, ra = operand(m, k, generator)
    weights = [operand(n, k, generator) for _ in range(1 + module.DUAL)]
    products = [product(a, b, sfa, sfb) for b, sfb, _ in weights]
    want = torch.nn.functional.silu(products[0]) * products[1] if module.DUAL else products[0]
    b, _, rb = zip(*weights, strict=True)
    c = guarded(m, n)
    counters, parts = workspace
    parts.fill_(torch.nan)  # what the launch before left is no sum of this one's
    tiles = emulated.config.tiles(m, n)
    shares = divmod(tiles * k // 128, blocks)
    if emulated.config.helped:
        blocks, *shares = emulated.config.deal(tiles, tiles * k // 128, blocks)
    assert emulated(blocks, [a, *b, ra, *rb, c, *workspace, m, n, k, *shares], lazy=lazy) == ""
    assert_right(c, want)
    assert not counters.any()


STREAMED = {
    # One block does tiles that begin and end in the midst of its range; a tile to each; parts of two tiles.
    "few": [((128, 256, 640), 1), ((128, 256, 640), 2), ((128, 256, 640), 3), ((128, 384, 384), 2)],
    # 4 or 5 blocks a tile, with and without one that goes on to the next; more blocks than units; a chunk each.
    "many": [((128, 256, 1024), 8), ((128, 256, 1152), 7), ((128, 128, 1152), 9), ((128, 128, 256), 2)],
    "ragged": [((72, 192, 640), 3), ((200, 192, 384), 5), ((136, 64, 512), 7)],
}


def streams() -> list[Any]:
    """All that the tests have with both kinds of tiles; some of them always."""
    always = [("many", 2), ("ragged", 1), ("ragged", 2), ("few", 1)]
    rest = [(which, mi) for which in STREAMED for mi in (1, 2) if (which, mi) not in always]
    return always + [pytest.param(*each, marks=pytest.mark.thorough) for each in rest]


@emulates
@pytest.mark.parametrize(("which", "mi"), streams())
def test_stream_gemm(submissions: dict[str, ModuleType], folder: Path, mi: int, which: str) -> None:
    """Several launches, of several sizes, on the same counters."""
    module = submissions["nvfp4_gemm"]
    config = configuration(module, mi, stream=1)
    emulated = Emulated(module, config, config.source, "nvfp4_gemm", folder)
    workspace = workspace_for(module, config, max(blocks for _, blocks in STREAMED[which]))
    for size, blocks in STREAMED[which]:
        for lazy in (False, True):
            streamed(module, emulated, workspace, size, blocks, lazy)


@emulates
@pytest.mark.parametrize(("mi", "size", "blocks"), [(1, (72, 128, 640), 7), (2, (136, 192, 384), 5)])
def test_stream_dual_gemm(
    submissions: dict[str, ModuleType], folder: Path, mi: int, size: tuple[int, int, int], blocks: int
) -> None:
    module = submissions["nvfp4_dual_gemm"]
    config = configuration(module, mi, stream=1)
    emulated = Emulated(module, config, config.source, "nvfp4_dual_gemm", folder)
    workspace = workspace_for(module, config, blocks)
    for lazy in (False, True):
        streamed(module, emulated, workspace, size, blocks, lazy)


@emulates
@pytest.mark.parametrize("mi", [1, 2])
@pytest.mark.parametrize("board", ["nvfp4_gemm", "nvfp4_dual_gemm"])
def test_tiles_with_helpers(
    submissions: dict[str, ModuleType], folder: Path, monkeypatch: pytest.MonkeyPatch, board: str, mi: int
) -> None:
    """Helpers of several tiles, the last of fewer; of a tile each; and such as are done no sooner than the blocks."""
    module = submissions[board]
    config = configuration(module, mi, stream=1, helped=1)
    emulated = Emulated(module, config, config.source, board, folder)
    workspace = workspace_for(module, config, 16)
    for ahead, size, spare in ((4, (264, 192, 768), 2), (0, (200, 448, 640), 3), (0, (136, 128, 384), 8)):
        monkeypatch.setattr(module, "HELPERS_AHEAD", ahead)
        for lazy in (False, True):
            streamed(module, emulated, workspace, size, config.tiles(*size[:2]) + spare, lazy)


@emulates
def test_launches_of_two_streams_and_of_a_graph_share_no_counters(
    submissions: dict[str, ModuleType], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = submissions["nvfp4_gemm"]
    config, size = configuration(module, 1, stream=1), (128, 256, 640)
    emulated = Emulated(module, config, config.source, "nvfp4_gemm", folder)
    launches = []

    def compiled(grid: tuple[int, ...], threads: tuple[int, ...], arguments: list[Any], shared_mem: int) -> None:
        launches.append((grid[0], arguments[5:7]))
        assert emulated(grid[0], arguments, lazy=True) == ""

    stream = SimpleNamespace(cuda_stream=1, capturing=False)
    monkeypatch.setattr(module, "kernel", lambda config: compiled)
    monkeypatch.setattr(module, "multiprocessors", lambda device: 6)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: stream.capturing)
    m, n, k = size
    generator = torch.Generator().manual_seed(7)
    for number, capturing in ((1, False), (2, False), (1, False), (3, True), (3, True), (3, False)):
        stream.cuda_stream, stream.capturing = number, capturing
        a, sfa, ra = operand(m, k, generator)
        b, sfb, rb = operand(n, k, generator)
        c = torch.full((m, n), torch.nan, dtype=torch.float16)
        module.launch(config, a, b, ra, rb, c)
        torch.testing.assert_close(c, product(a, b, sfa, sfb).half(), rtol=1e-3, atol=1e-3)
    # Ten chunks: six could run, but the longest share would be no shorter than with five.
    assert [blocks for blocks, _ in launches] == [5] * 6
    counters, parts = zip(*(workspace for _, workspace in launches), strict=True)
    for tensors in (counters, parts):
        addresses = [x.data_ptr() for x in tensors]
        assert addresses[2] == addresses[0]
        assert len({*addresses}) == 5
    module.workspace.cache_clear()


TEAMS = """
extern "C" void ranges(int all, int blocks, int* found) {
  const Shares s = {all / blocks, all % blocks};
  for (int block = 0; block < blocks; ++block) *found++ = s.begin(block), *found++ = s.begin(block + 1);
}
extern "C" void team(int begin, int end, int all, int blocks, int block, int* found) {
  emulator::Fiber fiber;
  fiber.block = block, emulator::self = &fiber;
  const Team t = team_of(begin, end, Shares{all / blocks, all % blocks});
  for (int x : {t.first, t.count, t.last_is_early, t.begin, t.end, t.counted}) *found++ = x;
}
"""


class Team(NamedTuple):
    first: int
    count: int
    last_is_early: int
    begin: int
    end: int
    counted: int


@pytest.fixture(scope="module")
def teams(submissions: dict[str, ModuleType], folder: Path) -> Any:
    module = submissions["nvfp4_gemm"]
    config = configuration(module, 1, stream=1)
    return Emulated(module, config, config.source, "nvfp4_gemm", folder, extra=TEAMS).library


NARROW_UNITS = 4


@emulates
@given(st.integers(1, 40), st.integers(1, 60), st.data())
def test_every_chunk_is_summed_once_and_every_unit_added_up_once(
    teams: Any, tiles: int, chunks: int, data: st.DataObject
) -> None:
    """The kernel's own arithmetic: who has which chunks, and who finishes which tile."""
    every = tiles * chunks
    blocks = data.draw(st.integers(1, min(132, every)))
    found = (ctypes.c_int * (2 * blocks))()
    teams.ranges(every, blocks, found)
    ranges = list(zip(found[::2], found[1::2], strict=True))
    assert [begin for begin, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == every
    lengths = {end - begin for begin, end in ranges}
    assert 0 not in lengths
    assert max(lengths) - min(lengths) <= 1

    counters = []
    for begin, end in ((tile * chunks, (tile + 1) * chunks) for tile in range(tiles)):
        members = [block for block, (first, after) in enumerate(ranges) if first < end and begin < after]
        if len(members) == 1:
            continue  # it stores the tile itself
        late = [block for block in members if ranges[block][1] <= end]
        assert late == members[: len(late)] != []
        finishers = min(len(late), NARROW_UNITS)
        units: list[int] = []
        for block in members:
            told = (ctypes.c_int * 6)()
            teams.team(begin, end, every, blocks, block, told)
            team = Team(*told)
            assert team[:3] == (members[0], len(members), late != members)
            assert team.counted == len(members) + finishers
            # Only blocks that have nothing else to do wait for others.
            assert (team.begin < team.end) == (block in late[:finishers])
            units += range(team.begin, team.end)
        assert units == [*range(NARROW_UNITS)]
        counters.append(members[0])
    assert len(set(counters)) == len(counters)


@emulates
def test_decoding_is_exact_for_every_code_and_scale(submissions: dict[str, ModuleType], folder: Path) -> None:
    """With A the identity, C is B as it was decoded: all codes times all finite scales, subnormal and negative ones."""
    module = submissions["nvfp4_gemm"]
    config, m, n, k = configuration(module, 1), 128, 256, 128
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
    assert emulated(n // config.columns, [a, b, ra, rb, c, *NO_WORKSPACE, m, n, k, 0, 0], lazy=True) == ""
    values = torch.tensor([*nvfp4.MAGNITUDES, *(-x for x in nvfp4.MAGNITUDES)])[codes.int()]
    want = values.view(k, 1) * scales.view(torch.float8_e4m3fn).float().view(1, n)
    assert torch.equal(c[:m].float(), want)


@emulates
@pytest.mark.parametrize(
    ("mi", "split", "size"),
    [(1, 1, (72, 128, 384)), (1, 2, (72, 128, 640)), (2, 1, (136, 192, 384)), (2, 2, (136, 192, 640))],
)
def test_dual_gemm(
    submissions: dict[str, ModuleType], folder: Path, mi: int, split: int, size: tuple[int, int, int]
) -> None:
    module = submissions["nvfp4_dual_gemm"]
    config = configuration(module, mi, split)
    emulated = Emulated(module, config, config.source, "nvfp4_dual_gemm", folder)
    m, n, k = size
    generator = torch.Generator().manual_seed(k)
    (a, sfa, ra), (b1, sfb1, rb1), (b2, sfb2, rb2) = (operand(rows, k, generator) for rows in (m, n, n))
    want = torch.nn.functional.silu(product(a, b1, sfa, sfb1)) * product(a, b2, sfa, sfb2)
    blocks = config.tiles(m, n) * split
    for lazy in (False, True):
        c = guarded(m, n)
        assert emulated(blocks, [a, b1, b2, ra, rb1, rb2, c, *NO_WORKSPACE, m, n, k, 0, 0], lazy=lazy) == ""
        assert_right(c, want)


def grouped(sizes: list[tuple[int, int, int]], seed: int) -> tuple[list[Any], list[tuple[torch.Tensor, torch.Tensor]]]:
    """The kernel's arguments for all groups, and each group's C with what is right."""
    generator = torch.Generator().manual_seed(seed)
    arguments: list[Any] = []
    results = []
    for m, n, k in sizes:
        a, sfa, ra = operand(m, k, generator)
        b, sfb, rb = operand(n, k, generator)
        c = guarded(m, n)
        arguments += [a, b, ra, rb, c, m, n, k]
        results.append((c, product(a, b, sfa, sfb)))
    return arguments, results


# Ragged groups, one of more rows than a tile.
GROUP_SIZES = [(136, 128, 768), (72, 384, 512), (8, 64, 256)]


@emulates
@pytest.mark.parametrize(("mi", "split"), [(1, 1), (1, 2), (2, 2)])
def test_group_gemm(submissions: dict[str, ModuleType], folder: Path, mi: int, split: int) -> None:
    module = submissions["nvfp4_group_gemm"]
    config = configuration(module, mi, split)
    emulated = Emulated(module, config, config.source(len(GROUP_SIZES)), "nvfp4_group_gemm", folder)
    arguments, results = grouped(GROUP_SIZES, 1)
    blocks = module.tiles_of(config, GROUP_SIZES) * split
    assert emulated(blocks, [*NO_WORKSPACE, 0, 0, *arguments], lazy=True) == ""
    for c, want in results:
        assert_right(c, want)


@emulates
@pytest.mark.parametrize("mi", [1, 2])
def test_stream_group_gemm(submissions: dict[str, ModuleType], folder: Path, mi: int) -> None:
    """Ranges that go over from one group to the next, with another k."""
    module = submissions["nvfp4_group_gemm"]
    config = configuration(module, mi, stream=1)
    emulated = Emulated(module, config, config.source(len(GROUP_SIZES)), "nvfp4_group_gemm", folder)
    workspace = workspace_for(module, config, 9)
    for blocks, lazy in ((3, True), (9, False), (5, True)):
        arguments, results = grouped(GROUP_SIZES, blocks)
        shares = divmod(module.chunks_of(config, GROUP_SIZES), blocks)
        workspace[1].fill_(torch.nan)
        assert emulated(blocks, [*workspace, *shares, *arguments], lazy=lazy) == ""
        for c, want in results:
            assert_right(c, want)
        assert not workspace[0].any()


def test_every_configuration_fits_a_multiprocessor(submissions: dict[str, ModuleType]) -> None:
    for module in submissions.values():
        for config in module.CONFIGS:
            assert config.a_stages % 2 == 0  # a chunk is two
            assert config.shared_bytes <= MOST_SHARED_BYTES


FASTEST = {
    # (mi, split, stream, helped) of each benchmark, as measured on an H200.
    "nvfp4_gemm": [(2, 1, 1, 0), (1, 1, 1, 0), (1, 2, 0, 0)],
    "nvfp4_dual_gemm": [(2, 2, 0, 0), (2, 1, 0, 0), (1, 1, 1, 1), (2, 1, 1, 1)],
    "nvfp4_group_gemm": [(2, 1, 1, 0), (2, 1, 0, 0), (2, 2, 0, 0), (1, 1, 0, 0)],
}


@pytest.mark.parametrize("board", FILES)
def test_plans_of_the_benchmarks(submissions: dict[str, ModuleType], board: str) -> None:
    module, task = submissions[board], yaml.safe_load((ROOT / "leaderboards" / board / "task.yml").read_text())
    chosen = []
    for case in task["benchmarks"]:
        size = case["m"], case["n"], case["k"]
        asked = (tuple(zip(*size, strict=True)),) if board == "nvfp4_group_gemm" else size
        config = module.plan(*asked, H200_MULTIPROCESSORS)
        chosen.append((config.mi, config.split, config.stream, config.helped))
    assert chosen == FASTEST[board]


def test_more_groups_than_stream_k_has_room_for(submissions: dict[str, ModuleType]) -> None:
    module = submissions["nvfp4_group_gemm"]
    few = ((16, 4096, 7168),)
    assert module.plan(few * 11, H200_MULTIPROCESSORS).stream
    assert module.plan(few * (module.MOST_GROUPS + 11), H200_MULTIPROCESSORS).stream == 0


def test_what_the_model_expects(submissions: dict[str, ModuleType]) -> None:
    """By hand. The launch takes 4.5, a block 1.9, one of a cluster of two 3.4; a chunk 0.89, or 1.54 of wide tiles."""

    def expected(tiles: int, chunks: int, *config: int) -> Any:
        module = submissions["nvfp4_gemm"]
        return module.estimate_us(configuration(module, *config), tiles, chunks, H200_MULTIPROCESSORS)

    assert expected(200, 16, 2) == pytest.approx(4.5 + 2 * (1.9 + 16 * 1.54))
    assert expected(56, 15, 1, 2) == pytest.approx(4.5 + 3.4 + 8 * 0.89)
    # Stream-K: the longest share's chunks, and 3.4·mi for each tile that it spans.
    assert expected(32, 56, 1, 1, 1) == pytest.approx(6.4 + 14 * 0.89 + 3.4)
    assert expected(28, 128, 2, 1, 1) == pytest.approx(6.4 + 28 * 1.54 + 6.8)
    # Helpers: the longer of a block's own chunks and a helper's, who leaves sums in 1.3·mi a tile; 1.7 to add them.
    assert expected(56, 16, 1, 1, 1, 1) == pytest.approx(6.4 + 10 * 0.89 + 1.7)
    assert expected(96, 56, 2, 1, 1, 1) == pytest.approx(6.4 + 3 * (13 * 1.54 + 2.6) + 1.7)


def test_blocks_of_stream_k(submissions: dict[str, ModuleType]) -> None:
    """As few as have the shortest longest share; never more than run at once, or than there are chunks."""
    config = configuration(submissions["nvfp4_gemm"], 1, stream=1)
    # 14 chunks each, a quarter of a tile, where 132 blocks would have 13 or 14.
    assert config.deal(32, 32 * 56, 132) == (128, 14, 0)
    assert config.deal(56, 56 * 16, 132) == (128, 7, 0)
    assert config.deal(1, 2, 132) == (2, 1, 0)
    assert config.deal(3, 3 * 100, 132) == (100, 3, 0)


def test_shares_of_helpers(submissions: dict[str, ModuleType]) -> None:
    config = configuration(submissions["nvfp4_dual_gemm"], 2, stream=1, helped=1)
    assert config.deal(96, 96 * 56, 132) == (96 + 32, 43, 3)
    assert config.deal(48, 48 * 32, 132) == (48 + 48, 18, 1)
    assert config.fits(131, 2, 132)
    assert not config.fits(132, 2, 132)
    assert not config.fits(131, 1, 132)


@given(st.integers(2, 132), st.data())
def test_every_tile_has_a_helper_who_is_done_sooner(
    submissions: dict[str, ModuleType], multiprocessors: int, data: st.DataObject
) -> None:
    """Sooner by four chunks, but where a helper has a single chunk of each of its tiles."""
    config = configuration(submissions["nvfp4_gemm"], 1, stream=1, helped=1)
    tiles, chunks = data.draw(st.integers(1, multiprocessors - 1)), data.draw(st.integers(2, 200))
    blocks, own, helped = config.deal(tiles, tiles * chunks, multiprocessors)
    helpers = blocks - tiles
    assert blocks <= multiprocessors
    assert (helpers - 1) * helped < tiles <= helpers * helped
    assert 0 < own < chunks
    assert own - helped * (chunks - own) >= 4 or own == chunks - 1


def test_a_plan_never_splits_more_than_there_is(submissions: dict[str, ModuleType]) -> None:
    for k in (128, 256, 384, 512):
        assert submissions["nvfp4_gemm"].plan(128, 128, k, H200_MULTIPROCESSORS).split <= k // 128
        group = submissions["nvfp4_group_gemm"].plan(((96, 128, 7168), (128, 256, k)), H200_MULTIPROCESSORS)
        assert group.split <= k // 128
        assert not group.helped


@pytest.mark.parametrize(("n", "k"), [(128, 192), (96, 256), (1 << 18, 1 << 15)])
def test_sizes_that_the_kernel_cannot_do_are_named(submissions: dict[str, ModuleType], n: int, k: int) -> None:
    for module in submissions.values():
        with pytest.raises(ValueError, match=f"n = {n}, k = {k}: this kernel wants"):
            module.check(n, k)
