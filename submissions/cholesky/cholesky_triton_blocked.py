#!POPCORN leaderboard cholesky
#!POPCORN gpu H200
"""Blocked Cholesky in Triton with 3×TF32 products: one launch up to n = 128, two for every 128 columns above.

With A split as [[A11, ·], [A21, A22]] and A11 of TILE columns, for all matrices of the batch at once:

    L11, L11⁻¹ from A11           POTF2 with the inverse, one program a matrix (`factor_tile`)
    L21 = A21·L11⁻ᵀ               TRSM by strips of 32 columns, which the inverses of L11's blocks make products
    A22 = A22 − L21·L21ᵀ          SYRK over a map of the lower triangle's tiles (`update_kernel`)

The program that updates the next A11 factors it as well, while the others are still at A22: the chain of pivots
hides behind the update as long as that is the longer of the two.

POTF2 keeps U = Lᵀ, 32 rows at a time, with a thread for a column and a register for a row. Then row k is a register,
which needs no searching if k is known to the compiler; what goes through shared memory is one row a step, for the
factors of the other 31. Elimination is done on [A11 | I], which becomes [Lᵀ | L⁻¹]: the inverse costs columns, not
steps.

Products are fp32 ones made of three TF32 ones. With hi = x rounded to TF32 and lo = x − hi,

    x·y = lo·hi + hi·lo + hi·hi + O(2⁻²¹)

L21 is split once, by the program that solves for it, and goes through a workspace as hi and lo: what the update fetches
by TMA is what the tensor cores read. A sum stays in them for one launch, at most 256 columns; then A22 takes it, with
one rounding in fp32. From n = 8192 on A22 is updated only every second time, by twice the columns, which halves its
trips through memory; the columns that are next get theirs at once.

Good at the whole grid without a line of CUDA. On an H200 967.4 µs by geomean over the board's 15 cases, 2.65 times
cuSOLVER, slower than it at one matrix of 4096 alone (0.73, by device events 0.91). Compiled for sm_100a and not run
there.
"""

import torch
import triton
import triton.language as tl
from task import input_t, output_t
from triton.tools.tensor_descriptor import TensorDescriptor

TILE = 128  # columns of a panel, rows and columns of a tile of the update
STRIP = tl.constexpr(32)  # rows that POTF2 eliminates at a time
FEW = tl.constexpr(16)  # rows moved or multiplied at a time beside an elimination, which needs the registers
ROWS = 32  # of a tile of the panel
DEPTH = 32  # columns multiplied at a time: 128 bytes, one swizzled row of shared memory
STAGES = 3  # of DEPTH columns of hi and lo of two tiles, 64 KiB each
PATCH = tl.constexpr(8)  # tiles a side that consecutive programs of the update share their operands in
LONG = 8192  # from this n on two panels make one update
CROWD = 128  # matrices from which on their factors are a launch of their own, with more of them on a multiprocessor


@triton.jit
def picked(tile, index, k: tl.constexpr):
    """Row k of a tile, which a thread that holds whole columns has in one register.

    The sum is over bits, where adding zero changes nothing (among floats −0 + 0 = 0 does), so that with a constant k
    the compiler removes all of it.
    """
    bits = tl.where(index == k, tile.to(tl.int32, bitcast=True), 0)
    return tl.sum(bits, axis=0).to(tl.float32, bitcast=True)


@triton.jit
def reciprocal_root(x):
    """x^-½: the hardware's approximation and one step of Newton's. NaN for what is not positive."""
    r = tl.rsqrt(x)
    return r + r * (0.5 * (1.0 - (x * r) * r))


@triton.jit
def eliminate(rows, first):
    """Right-looking on rows whose diagonal block starts at column `first`: what earlier rows have left becomes U.

    Row k at the diagonal block's columns is what all threads need of it, and the only trip through shared memory. The
    outer product takes it unscaled, times row/pivot, so that nothing waits for a scaled column.
    """
    COUNT: tl.constexpr = rows.shape[0]
    index = tl.arange(0, COUNT)
    row = index[:, None]
    for k in tl.static_range(COUNT):
        pivot_row = picked(rows, row, k)
        column = tl.gather(pivot_row, first + index, axis=0)[:, None]  # column k of the diagonal block, by symmetry
        root = reciprocal_root(picked(column, row, k))
        done = pivot_row * root
        rows = tl.where(row > k, rows - column * (done * root)[None, :], tl.where(row == k, done[None, :], rows))
    return rows


@triton.jit(do_not_specialize=["n"])
def factor_strip_kernel(a_ptr, l_ptr, n, SIZE: tl.constexpr):
    """n ≤ SIZE: a matrix a program, in registers from the load to the store. What is outside is an identity."""
    row, col = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    offset = tl.program_id(0).to(tl.int64) * n * n
    inside = (row < n) & (col < n)
    rows = tl.load(a_ptr + offset + row * n + col, mask=inside, other=0.0)
    rows = eliminate(tl.where(inside | (row != col), rows, 1.0), 0)
    tl.store(l_ptr + offset + col * n + row, tl.where(col >= row, rows, 0.0), mask=inside)


@triton.jit
def factor_tile(a_ptr, l_ptr, scratch_ptr, n, start, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """L of the diagonal tile of `SIZE` columns at `start`; both triangles of the tile are read, and what is outside the
    matrix is an identity. In scratch [SIZE, WIDTH], [A11 | I] becomes [Lᵀ | L⁻¹], or A11 Lᵀ if WIDTH is SIZE.

    The scratch, mostly in the L1, is at addresses that are constants to the elimination, and takes a strip from the
    tensor cores' layout to that of the elimination. It must not be known to be aligned: with loads of four columns a
    thread, that would be the layout of all that follows.
    """
    row_of = tl.arange(0, STRIP)[:, None]
    col = tl.arange(0, WIDTH)[None, :]
    corner = start.to(tl.int64) * (n + 1)
    for first in tl.range(0, SIZE, FEW, num_stages=1):
        row = first + tl.arange(0, FEW)[:, None]
        inside = (start + row < n) & (start + col < n) & (col < SIZE)
        a = tl.load(a_ptr + corner + row * n + col, mask=inside, other=0.0)
        unit = tl.where((row == col) | (row + SIZE == col), 1.0, 0.0)
        tl.store(scratch_ptr + row * WIDTH + col, tl.where(inside, a, unit))
    for strip in range(SIZE // STRIP):
        tl.debug_barrier()  # all threads read here what others wrote
        here = scratch_ptr + (strip * STRIP + row_of) * WIDTH + col
        if strip > 0:
            product = tl.zeros((STRIP, WIDTH), tl.float32)
            for above in tl.range(0, strip * STRIP, FEW, num_stages=1):
                past = scratch_ptr + (above + tl.arange(0, FEW)) * WIDTH
                left = tl.load(past[None, :] + strip * STRIP + row_of)
                right = tl.load(past[:, None] + col)
                product = tl.dot(left, right, product, input_precision="tf32x3")
            tl.store(here, tl.load(here) - product)
            tl.debug_barrier()
        tl.store(here, eliminate(tl.load(here), strip * STRIP))
    tl.debug_barrier()
    col = tl.arange(0, SIZE)[None, :]
    for first in tl.range(0, SIZE, FEW, num_stages=1):
        row = first + tl.arange(0, FEW)[:, None]
        u = tl.load(scratch_ptr + row * WIDTH + col)
        inside = (start + row < n) & (start + col < n)
        tl.store(l_ptr + corner + col * n + row, tl.where(col >= row, u, 0.0), mask=inside)


@triton.jit(do_not_specialize=["n", "start"], do_not_specialize_on_alignment=["scratch_ptr"])
def factor_kernel(a_ptr, l_ptr, scratch_ptr, n, start, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """The diagonal tile at `start` of one matrix a program."""
    matrix = tl.program_id(0).to(tl.int64)
    scratch_ptr += matrix * SIZE * WIDTH
    factor_tile(a_ptr + matrix * n * n, l_ptr + matrix * n * n, scratch_ptr, n, start, SIZE, WIDTH)


@triton.jit
def rounded_to_tf32(x):
    """The nearest number with 10 explicit bits of mantissa."""
    return ((x.to(tl.uint32, bitcast=True) + 0x1000) & 0xFFFFE000).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["batch", "panel", "column", "tiles"])
def solve_kernel(
    source_ptr, l_ptr, scratch_ptr, split_ptr, n, batch, panel, column, tiles, REACH: tl.constexpr,
    TILE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """ROWS rows X of L21, by strips: X_s = (A_s − Σ_{t<s} X_t·L_stᵀ)·L_ss⁻ᵀ. Inverses of 32 × 32 blocks are small
    enough that their condition does little harm; with that of L11 as a whole, residuals were up to five times larger.

    X goes to L, and as hi and lo into tile `column` of the workspace's columns, split [2, batch, tiles·TILE, REACH]:
    hi, then lo. Its mirror image above the diagonal becomes zero.
    """
    matrix = (tl.program_id(0) % batch).to(tl.int64)
    start = panel * TILE
    below = start + TILE + tl.program_id(0) // batch * ROWS + tl.arange(0, ROWS)
    inside = (below < n)[:, None]
    within = tl.arange(0, STRIP)
    rows = matrix * n * n + below.to(tl.int64)[:, None] * n + start
    scratch_ptr += matrix * TILE * (2 * TILE)
    split_rows = split_ptr + (matrix * tiles * TILE + below)[:, None] * REACH + column * TILE
    to_lo = batch.to(tl.int64) * tiles * TILE * REACH
    for first in range(0, TILE, STRIP):
        col = first + within
        known = tl.zeros((ROWS, STRIP), tl.float32)
        for before in tl.range(0, first, STRIP, num_stages=1):
            k = before + within
            x = tl.load(l_ptr + rows + k[None, :], mask=inside, other=0.0)
            u = tl.load(scratch_ptr + k[:, None] * (2 * TILE) + col[None, :])
            known = tl.dot(x, u, known, input_precision="tf32x3")
        a = tl.load(source_ptr + rows + col[None, :], mask=inside, other=0.0)
        inverse = tl.load(scratch_ptr + TILE + col[:, None] * (2 * TILE) + col[None, :])
        x = tl.dot(a - known, inverse.T, input_precision="tf32x3")
        hi = rounded_to_tf32(x)
        tl.debug_barrier()  # L takes A's place: no thread may write while another reads
        tl.store(l_ptr + rows + col[None, :], x, mask=inside)
        tl.store(split_rows + col[None, :], hi)
        tl.store(split_rows + to_lo + col[None, :], x - hi)
        tl.debug_barrier()  # the next strip reads this one
        mirrored = matrix * n * n + (start + col).to(tl.int64)[:, None] * n + below[None, :]
        tl.store(l_ptr + mirrored, tl.zeros((STRIP, ROWS), tl.float32), mask=(below < n)[None, :])


@triton.jit
def place_in_triangle(index):
    """Row and column of the index-th element of a lower triangle, row by row."""
    row = ((tl.sqrt(8.0 * index.to(tl.float32) + 1.0) - 1.0) * 0.5).to(tl.int32)
    row = tl.where(row * (row + 1) // 2 > index, row - 1, row)  # the root may have been rounded either way
    row = tl.where((row + 1) * (row + 2) // 2 <= index, row + 1, row)
    return row, index - row * (row + 1) // 2


@triton.jit(
    do_not_specialize=["n", "batch", "panel", "tiles", "depth", "narrow"],
    do_not_specialize_on_alignment=["scratch_ptr"],
)
def update_kernel(
    source_ptr, l_ptr, scratch_ptr, split, n, pitch, batch, panel, tiles, depth, narrow,
    TILE: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, CHAINED: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """One tile of A22 − L21·L21ᵀ, A22 from tile `panel` of `tiles` on, L21 of `depth` columns; all of its lower
    triangle, or, if narrow, its first column of tiles. With AHEAD the program of the first tile factors it.

    CHAINED: three products of what was fetched once, into the same accumulator. Where that is tensor memory, Triton 3.7
    carries it through registers from one product to the next; so there a loop over lo·hi, then hi·lo, then hi·hi, one
    product a step, which fetches half as much again.

    split: hi's rows of all matrices, then lo's. pitch is n again, which may be known as a multiple of 16.
    """
    matrix = tl.program_id(0) % batch
    place = tl.program_id(0) // batch
    i, j = place, place * 0
    if narrow == 0:
        patch_i, patch_j = place_in_triangle(place // (PATCH * PATCH))
        i = patch_i * PATCH + place // PATCH % PATCH
        j = patch_j * PATCH + place % PATCH
    if (panel + i >= tiles) | (j > i):
        return
    row, col = (panel + i) * TILE, (panel + j) * TILE
    a_hi_row, b_hi_row = matrix * tiles * TILE + row, matrix * tiles * TILE + col
    to_lo = batch * tiles * TILE
    product = tl.zeros((TILE, TILE), tl.float32)
    if CHAINED:
        for k in tl.range(0, depth, DEPTH, num_stages=STAGES):
            a_hi, a_lo = split.load([a_hi_row, k]), split.load([a_hi_row + to_lo, k])
            b_hi, b_lo = split.load([b_hi_row, k]), split.load([b_hi_row + to_lo, k])
            product = tl.dot(a_lo, b_hi.T, product, input_precision="tf32")
            product = tl.dot(a_hi, b_lo.T, product, input_precision="tf32")
            product = tl.dot(a_hi, b_hi.T, product, input_precision="tf32")
    else:
        for step in tl.range(0, 3 * depth, DEPTH, num_stages=2 * STAGES):
            term, k = step // depth, step % depth
            a = split.load([a_hi_row + tl.where(term == 0, to_lo, 0), k])
            b = split.load([b_hi_row + tl.where(term == 1, to_lo, 0), k])
            product = tl.dot(a, b.T, product, input_precision="tf32")
    within = tl.arange(0, TILE)
    whole = matrix.to(tl.int64) * pitch * pitch
    offset = whole + (row + within).to(tl.int64)[:, None] * pitch + (col + within)[None, :]
    inside = (row + within < pitch)[:, None] & (col + within < pitch)[None, :]
    tile = tl.load(source_ptr + offset, mask=inside, other=0.0) - product
    tl.store(l_ptr + offset, tile, mask=inside)
    if AHEAD:  # noqa: SIM102 (in one condition with the next, it would be decided at run time)
        if place == 0:
            tl.debug_barrier()
            scratch_ptr += matrix.to(tl.int64) * TILE * (2 * TILE)
            factor_tile(l_ptr + whole, l_ptr + whole, scratch_ptr, n, panel * TILE, TILE, 2 * TILE)


def updates(tiles: int, group: int) -> list[tuple[int, int, bool]]:
    """(panel, first, narrow) for every panel but the last: what is subtracted once it is known.

    Panels from `first` on, from the next panel's column of tiles (narrow), or, once for `group` panels, from all that
    is left.
    """
    return [(panel, panel - panel % group, (panel + 1) % group != 0) for panel in range(tiles - 1)]


def programs(tiles: int, narrow: bool) -> int:
    """Of an update of a triangle of `tiles` tiles a side: its first column, or patches that cover it."""
    patches = triton.cdiv(tiles, PATCH.value)
    return tiles if narrow else patches * (patches + 1) // 2 * PATCH.value**2


def sums_in_registers(device: torch.device) -> bool:
    """Whether the tensor cores' accumulators are registers, not tensor memory."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 10


def factor_small(data: torch.Tensor) -> torch.Tensor:
    """n ≤ TILE: a matrix a program, a launch in all."""
    batch, n, _ = data.shape
    factor = torch.empty_like(data)
    size = max(32, triton.next_power_of_2(n))
    if size < TILE:
        factor_strip_kernel[(batch,)](data, factor, n, SIZE=size, num_warps=size // 32)
        return factor
    scratch = torch.empty(batch, TILE, TILE, device=data.device)
    factor_kernel[(batch,)](data, factor, scratch, n, 0, SIZE=TILE, WIDTH=TILE, num_warps=4, num_stages=1)
    return factor


def factor_large(data: torch.Tensor) -> torch.Tensor:
    """n > TILE: the diagonal tile, then for every panel but the last a solution and an update."""
    batch, n, _ = data.shape
    tiles = triton.cdiv(n, TILE)
    group = 2 if n >= LONG else 1
    ahead = batch < CROWD
    chained = sums_in_registers(data.device)
    factor = torch.empty_like(data)
    scratch = torch.empty(batch, TILE, 2 * TILE, device=data.device)
    split = torch.empty(2 * batch * tiles * TILE, group * TILE, device=data.device)
    fetched = TensorDescriptor.from_tensor(split, [TILE, DEPTH])

    def factor_diagonal(source: torch.Tensor, panel: int) -> None:
        sizes = {"SIZE": TILE, "WIDTH": 2 * TILE}
        factor_kernel[(batch,)](source, factor, scratch, n, panel * TILE, **sizes, num_warps=8, num_stages=1)

    factor_diagonal(data, 0)
    for panel, first, narrow in updates(tiles, group):
        column, following = panel - first, panel + 1
        # What no update has reached yet is still in A.
        solve_kernel[(batch * triton.cdiv(n - following * TILE, ROWS),)](
            factor if panel else data, factor, scratch, split, n, batch, panel, column, tiles,
            REACH=group * TILE, TILE=TILE, ROWS=ROWS, num_warps=4, num_stages=1,
        )  # fmt: skip
        update_kernel[(batch * programs(tiles - following, narrow),)](
            factor if first else data, factor, scratch, fetched, n, n, batch, following, tiles, (column + 1) * TILE,
            int(narrow), TILE=TILE, DEPTH=DEPTH, STAGES=STAGES, CHAINED=chained, AHEAD=ahead, num_warps=8,
        )  # fmt: skip
        if not ahead:
            factor_diagonal(factor, following)
    return factor


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    return factor_small(data) if data.shape[-1] <= TILE else factor_large(data)
