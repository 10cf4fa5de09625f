#!POPCORN leaderboard cholesky
#!POPCORN gpu H200
"""The blocked algorithm in Gluon for Hopper: products on tensor cores by 3×TF32, fed by TMA, warps specialised.

With A split as [[A11, ·], [A21, A22]] and A11 of BLOCK = 128 columns, for all matrices of the batch at once:

    factor_kernel    L11 = factor of A11, and M = L11⁻¹     POTF2; one program a matrix
    solve_kernel     L21 = A21·Mᵀ                           TRSM as a product; one program for 64 rows
    update_kernel    A22 = A22 − L21·L21ᵀ                   SYRK; persistent over the tiles of the lower triangle

*3×TF32.* x = hi + lo with hi = tf32(x) and lo = tf32(x − hi) keeps 22 bits of x, and

    x·y = hi·hi + hi·lo + lo·hi + O(2⁻²²)·|x·y|

takes three products on tensor cores. solve_kernel splits L21 once, into two buffers [rows, depth] of a scratch padded
to whole tiles, so that whatever n is, TMA fetches both operands of every product, K-major and swizzled as `wgmma` reads
them. The small products of a step go first: the tensor core truncates its sums. A sum in the tensor core is never
longer than a group of columns (below); registers take it off A22 in fp32.

*update_kernel* is three partitions. One warp keeps a ring of stages filled by TMA; two warpgroups multiply; a few more
warps take finished sums out of shared memory, from a buffer of 128 × 128, and subtract them from A22, whose elements
they have asked for while the sum was still being formed. A program goes through its tiles without a pause: while one
tile leaves, the next is being loaded and multiplied. Tiles are 128 × 128, or 128 × 256 where there are enough of them;
the map (`tile_of`) takes columns of tiles eight at a time, so that tiles in work share operands in the L2.

*factor_kernel* holds a row a thread: all columns of a strip are registers of the row's thread, and a column of L passes
through shared memory once and is read by broadcast. The inverse is had in the same way: X·L11ᵀ = I is solved a row of X
a thread, with the same columns and without a word between threads. With it, TRSM is a product instead of 128 steps;
what that costs in accuracy grows with the condition of one diagonal block. On an H200 the residual is at most 11.4
times cuSOLVER's (1·2048 `spectrum`), ten times on `lowrank` of four decades (4·256, 0.29 % of what the board allows),
elsewhere up to 4.3 (16·512, 640·512).

A trailing matrix that goes through memory once for every BLOCK columns would be bound by that. So columns come in
groups: inside a group a block first takes off what the group's columns to its left explain (left-looking: update_kernel
on one column of tiles); the rest of the matrix is updated once a group. `plan` is the order of all launches.

n ≤ 128 is one launch of factor_kernel. Sizes that no block divides are padded by an identity in registers.

Good at large matrices, where nearly all the time is update_kernel; between 256 and 2048 the chain of launches shows.
Compiled for sm_90a by Triton 3.6 and 3.7.1. On an H200, by 3.6, 797.7 µs by geomean over the board's 15 cases, 3.22
times cuSOLVER, slower than it at one matrix of 4096 alone (0.77, by device events 0.89).
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
from task import input_t, output_t
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

WARP = 32
STRIP = 32  # columns that a thread holds of its row
SMALL = 128  # the largest n of one launch
BLOCK = 128  # columns of a panel, rows of a tile
SOLVE_ROWS = 64
CHUNK = 32  # columns multiplied at a time in TRSM: 128 bytes of a row, the widest swizzle
BESIDE = 8  # columns of tiles that are gone through together


@gluon.constexpr_function
def row_layout(width, num_warps):
    """[WARP·num_warps, width]: a row a thread."""
    return gl.BlockedLayout([1, width], [WARP, 1], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def coalesced_layout(num_warps):
    """[·, STRIP] in memory by rows: eight threads for the 128 bytes of a row, sixteen bytes each."""
    return gl.BlockedLayout([1, 4], [WARP // 8, 8], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def tile_layout(num_warps):
    """[·, BLOCK] in memory by rows: a warp for the 512 bytes of a row."""
    return gl.BlockedLayout([1, 4], [1, WARP], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def product_layout(columns, num_warps):
    """Sums of `wgmma`, m64nNk8: sixteen rows a warp, all columns."""
    return gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, columns, 8])


@gluon.jit
def reciprocal_root(x):
    """1/√x: the hardware's approximation and one step of Newton's. NaN where x is negative, and where it is zero."""
    r = gl.rsqrt(x)
    return r + r * (0.5 - 0.5 * (x * r) * r)


@gluon.jit
def tf32(x):
    """The nearest number of 11 significant bits; NaN stays NaN."""
    return gl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=f,f", [x], gl.float32, is_pure=True, pack=1)


@gluon.jit
def split(x):
    """x = hi + lo but for 2⁻²² of it."""
    hi = tf32(x)
    return hi, tf32(x - hi)


@gluon.jit
def taken(a, k: gl.constexpr):
    """Column k of a strip whose rows lie within threads: a register, once the compiler has folded the sum."""
    col = gl.arange(0, a.shape[1], gl.SliceLayout(0, a.type.layout))
    return gl.sum(gl.where((col == k)[None, :], a, -0.0), axis=1)


@gluon.jit
def piece(lines, k, strip, W: gl.constexpr):
    """A strip's part of line k in shared memory: a slice, but one that may begin where only the kernel knows."""
    PIECES: gl.constexpr = lines.shape[1] // W
    return lines._reinterpret(gl.float32, [lines.shape[0] * PIECES, W], lines.layout).index(k * PIECES + strip)


@gluon.jit
def without_explained(a, own, columns, strip):
    """a − Σ_k own_k·L_jk for the columns j of a strip, over all k before it: without what they have explained."""
    W: gl.constexpr = a.shape[1]
    for k in range(strip * W):
        across = piece(columns, k, strip, W).load(gl.SliceLayout(0, a.type.layout))
        a -= own.index(k).load(gl.SliceLayout(1, a.type.layout))[:, None] * across[None, :]
    return a


@gluon.jit
def factor_strip(a, columns, even, odd, strip):
    """A strip of L's columns from one of A's from which the earlier ones are taken off, and into `columns` with them.

    The diagonal of `columns` holds the reciprocals 1/L_kk, which substitution multiplies by. `even` and `odd` carry a
    column to all threads; as there are two, one barrier a column is enough.
    """
    N: gl.constexpr = a.shape[0]
    W: gl.constexpr = a.shape[1]
    ACROSS: gl.constexpr = gl.SliceLayout(0, a.type.layout)
    row = gl.arange(0, N, gl.SliceLayout(1, a.type.layout))
    col = gl.arange(0, W, ACROSS)
    for k in gl.static_range(W):
        line = even if k % 2 == 0 else odd
        column = taken(a, k)
        line.index(0).store(column)
        across = piece(line, 0, strip, W).load(ACROSS)
        root = reciprocal_root(gl.sum(gl.where(col == k, across, -0.0), axis=0))
        column = column * root
        columns.index(strip * W + k).store(gl.where(row == strip * W + k, root, column))
        rest = a - (column * root)[:, None] * across[None, :]
        a = gl.where((col == k)[None, :], column[:, None], gl.where((col > k)[None, :], rest, a))
    return a


@gluon.jit
def solve_strip(b, own, columns, strip):
    """A strip of X's columns from X·Lᵀ = B, given one of B's without what X's earlier ones explain; also in `own`."""
    W: gl.constexpr = b.shape[1]
    ACROSS: gl.constexpr = gl.SliceLayout(0, b.type.layout)
    col = gl.arange(0, W, ACROSS)
    for k in gl.static_range(W):
        across = piece(columns, strip * W + k, strip, W).load(ACROSS)
        x = taken(b, k) * gl.sum(gl.where(col == k, across, -0.0), axis=0)
        rest = b - x[:, None] * across[None, :]
        b = gl.where((col == k)[None, :], x[:, None], gl.where((col > k)[None, :], rest, b))
    strips = own._reinterpret(
        gl.float32, [own.shape[0] // W, W, own.shape[1]], gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    )
    strips.index(strip).permute((1, 0)).store(b)
    return b


@gluon.jit
def invert(hi_ptr, lo_ptr, columns, own, W: gl.constexpr, num_warps: gl.constexpr):
    """M = L11⁻¹, split: row c of X = Mᵀ is what X·L11ᵀ = I says of it."""
    N: gl.constexpr = columns.shape[0]
    LAYOUT: gl.constexpr = row_layout(W, num_warps)
    row = gl.arange(0, N, gl.SliceLayout(1, LAYOUT))[:, None]
    for s in range(N // W):
        col = s * W + gl.arange(0, W, gl.SliceLayout(0, LAYOUT))[None, :]
        x = without_explained(gl.where(row == col, 1.0, 0.0), own, columns, s)
        hi, lo = split(solve_strip(x, own, columns, s))
        gl.store(hi_ptr + col * N + row, hi)
        gl.store(lo_ptr + col * N + row, lo)


@gluon.jit
def factor_kernel(
    source_ptr, l_ptr, hi_ptr, lo_ptr, n, start, N: gl.constexpr, W: gl.constexpr, num_warps: gl.constexpr
):  # fmt: skip
    """L11 of N columns, zeros above its diagonal, and, where there is a place for it, its inverse.

    A11 is symmetric, so its rows are read where its columns are wanted: the threads of a warp then read neighbours.
    """
    LAYOUT: gl.constexpr = row_layout(W, num_warps)
    COALESCED: gl.constexpr = coalesced_layout(num_warps)
    LINE: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    columns = gl.allocate_shared_memory(gl.float32, [N, N], LINE)
    even = gl.allocate_shared_memory(gl.float32, [1, N], LINE)
    odd = gl.allocate_shared_memory(gl.float32, [1, N], LINE)
    matrix = gl.program_id(0).to(gl.int64)
    corner = matrix * n * n + start.to(gl.int64) * (n + 1)
    source_ptr += corner
    l_ptr += corner
    for s in range(N // W):
        row = gl.arange(0, N, gl.SliceLayout(1, LAYOUT))[:, None]
        col = s * W + gl.arange(0, W, gl.SliceLayout(0, LAYOUT))[None, :]
        inside = (start + row < n) & (start + col < n)
        a = gl.load(source_ptr + col * n + row, mask=inside, other=0.0)
        a = gl.where(inside, a, gl.where(row == col, 1.0, 0.0))
        a = without_explained(a, columns, columns, s)
        a = gl.convert_layout(factor_strip(a, columns, even, odd, s), COALESCED)
        r = gl.arange(0, N, gl.SliceLayout(1, COALESCED))[:, None]
        c = s * W + gl.arange(0, W, gl.SliceLayout(0, COALESCED))[None, :]
        gl.store(l_ptr + r * n + c, gl.where(r >= c, a, 0.0), mask=(start + r < n) & (start + c < n))
    if hi_ptr is not None:
        own = gl.allocate_shared_memory(gl.float32, [N, N], LINE)
        invert(hi_ptr + matrix * N * N, lo_ptr + matrix * N * N, columns, own, W, num_warps)


@gluon.jit
def solve_kernel(
    source_ptr, l_ptr, hi_ptr, lo_ptr, inverse_hi, inverse_lo, n, start, depth, padded,
    GROUP: gl.constexpr, ROWS: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """ROWS rows of L21 = A21·Mᵀ, whole and split; the scratch's columns begin at the group's. The mirror is zeroed."""
    BLOCK: gl.constexpr = inverse_hi.block_type.shape[0]
    CHUNK: gl.constexpr = inverse_hi.block_type.shape[1]
    CHUNKS: gl.constexpr = BLOCK // CHUNK
    LAYOUT: gl.constexpr = coalesced_layout(num_warps)
    tiles = gl.cdiv(n - start - BLOCK, ROWS)
    matrix = gl.program_id(0) // tiles
    below = start + BLOCK + gl.program_id(0) % tiles * ROWS

    a_hi = gl.allocate_shared_memory(gl.float32, [CHUNKS, ROWS, CHUNK], inverse_hi.layout)
    a_lo = gl.allocate_shared_memory(gl.float32, [CHUNKS, ROWS, CHUNK], inverse_hi.layout)
    m_hi = gl.allocate_shared_memory(gl.float32, [CHUNKS, BLOCK, CHUNK], inverse_hi.layout)
    m_lo = gl.allocate_shared_memory(gl.float32, [CHUNKS, BLOCK, CHUNK], inverse_hi.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, 2 * CHUNKS * inverse_hi.block_type.nbytes)
    for c in gl.static_range(CHUNKS):
        tma.async_copy_global_to_shared(inverse_hi, [matrix * BLOCK, c * CHUNK], loaded, m_hi.index(c))
        tma.async_copy_global_to_shared(inverse_lo, [matrix * BLOCK, c * CHUNK], loaded, m_lo.index(c))

    tile = matrix.to(gl.int64) * n * n + below.to(gl.int64) * n + start
    row = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))[:, None]
    for c in gl.static_range(CHUNKS):
        col = c * CHUNK + gl.arange(0, CHUNK, gl.SliceLayout(0, LAYOUT))[None, :]
        hi, lo = split(gl.load(source_ptr + tile + row * n + col, mask=below + row < n, other=0.0))
        a_hi.index(c).store(hi)
        a_lo.index(c).store(lo)
    mirror = matrix.to(gl.int64) * n * n + start.to(gl.int64) * n + below
    row = gl.arange(0, BLOCK, gl.SliceLayout(1, LAYOUT))[:, None]
    col = gl.arange(0, ROWS, gl.SliceLayout(0, LAYOUT))[None, :]
    gl.store(l_ptr + mirror + row * n + col, gl.zeros([BLOCK, ROWS], gl.float32, LAYOUT), mask=below + col < n)

    PRODUCT: gl.constexpr = product_layout(BLOCK, num_warps)
    x = gl.zeros([ROWS, BLOCK], gl.float32, PRODUCT)
    fence_async_shared()
    mbarrier.wait(loaded, 0)
    for c in gl.static_range(CHUNKS):
        x = warpgroup_mma(a_lo.index(c), m_hi.index(c).permute((1, 0)), x, is_async=True)
        x = warpgroup_mma(a_hi.index(c), m_lo.index(c).permute((1, 0)), x, is_async=True)
    for c in gl.static_range(CHUNKS):
        x = warpgroup_mma(a_hi.index(c), m_hi.index(c).permute((1, 0)), x, is_async=True)
    x = warpgroup_mma_wait(0, deps=(x,))

    row = gl.arange(0, ROWS, gl.SliceLayout(1, PRODUCT))[:, None]
    col = gl.arange(0, BLOCK, gl.SliceLayout(0, PRODUCT))[None, :]
    gl.store(l_ptr + tile + row * n + col, x, mask=below + row < n)
    hi, lo = split(x)
    panel = (matrix.to(gl.int64) * padded + below) * GROUP + depth
    gl.store(hi_ptr + panel + row * GROUP + col, hi)
    gl.store(lo_ptr + panel + row * GROUP + col, lo)


@gluon.jit
def tile_of(t, side, BESIDE: gl.constexpr):
    """Tile t of a lower triangle of side × side, as (i, j); j > i where there is none.

    BESIDE columns of tiles at a time, row by row from the first one's diagonal down; with BESIDE = 1 the first `side`
    tiles are a column.
    """
    j = 0
    while t >= (side - j) * BESIDE:
        t -= (side - j) * BESIDE
        j += BESIDE
    return j + t // BESIDE, j + t % BESIDE


@gluon.jit
def place_of(t, tiles, side, first, ROWS: gl.constexpr, COLS: gl.constexpr, BESIDE: gl.constexpr):
    """Where tile t of a launch is: (matrix, its first row, its first column, whether it is in the lower triangle).

    A tile of COLS × COLS in the map is COLS / ROWS of the launch's.
    """
    i, j = tile_of(t % tiles // (COLS // ROWS), side, BESIDE)
    top = first + i * COLS + t % (COLS // ROWS) * ROWS
    return t // tiles, top, first + j * COLS, j <= i


@gluon.jit
def load_partition(descs, stages, barriers, where, depth, padded, COLS: gl.constexpr, BESIDE: gl.constexpr):
    """Fills the ring: rows and columns of the panel, both halves of each, a few columns of it at a time."""
    ready, empty, _, _ = barriers
    tiles, side, first, total = where
    row_hi, row_lo, col_hi, col_lo = descs
    a_hi, a_lo, b_hi, b_lo = stages
    ROWS: gl.constexpr = row_hi.block_type.shape[0]
    DEPTH: gl.constexpr = row_hi.block_type.shape[1]
    STAGES: gl.constexpr = a_hi.shape[0]
    step = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        matrix, top, left, wanted = place_of(t, tiles, side, first, ROWS, COLS, BESIDE)
        if wanted:
            row, col = matrix * padded + top, matrix * padded + left
            for k in range(0, depth, DEPTH):
                slot = step % STAGES
                bar = ready.index(slot)
                mbarrier.wait(empty.index(slot), (step // STAGES + 1) & 1)
                mbarrier.expect(bar, 2 * row_hi.block_type.nbytes + 2 * col_hi.block_type.nbytes)
                tma.async_copy_global_to_shared(row_lo, [row, k], bar, a_lo.index(slot))
                tma.async_copy_global_to_shared(col_hi, [col, k], bar, b_hi.index(slot))
                tma.async_copy_global_to_shared(row_hi, [row, k], bar, a_hi.index(slot))
                tma.async_copy_global_to_shared(col_lo, [col, k], bar, b_lo.index(slot))
                step += 1


@gluon.jit
def product_partition(
    stages, barriers, sums, where, depth,
    ROWS: gl.constexpr, COLS: gl.constexpr, BESIDE: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """P·Pᵀ of every tile, handed over through `sums` 128 columns at a time."""
    ready, empty, full, drained = barriers
    tiles, side, first, total = where
    a_hi, a_lo, b_hi, b_lo = stages
    STAGES: gl.constexpr = a_hi.shape[0]
    DEPTH: gl.constexpr = a_hi.shape[2]
    PRODUCT: gl.constexpr = product_layout(COLS, num_warps)
    step = 0
    turn = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        _, _, _, wanted = place_of(t, tiles, side, first, ROWS, COLS, BESIDE)
        if wanted:
            sum = gl.zeros([ROWS, COLS], gl.float32, PRODUCT)
            for k in range(0, depth, DEPTH):
                slot = step % STAGES
                mbarrier.wait(ready.index(slot), step // STAGES & 1)
                hi, lo = b_hi.index(slot).permute((1, 0)), b_lo.index(slot).permute((1, 0))
                sum = warpgroup_mma(a_lo.index(slot), hi, sum, is_async=True)
                sum = warpgroup_mma(a_hi.index(slot), lo, sum, is_async=True)
                sum = warpgroup_mma(a_hi.index(slot), hi, sum, is_async=True)
                # All but the three just begun are done, so the stage before is free.
                sum = warpgroup_mma_wait(3, deps=(sum,))
                mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), count=1, pred=k > 0)
                step += 1
            product = warpgroup_mma_wait(0, deps=(sum,))
            mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), count=1)
            if sums.shape[1] == COLS:
                turn = hand_over(product, sums, full, drained, turn)
            else:
                left, right = gl.split(product.reshape([ROWS, 2, COLS // 2]).permute((0, 2, 1)))
                turn = hand_over(left, sums, full, drained, turn)
                turn = hand_over(right, sums, full, drained, turn)


@gluon.jit
def hand_over(product, sums, full, drained, turn):
    mbarrier.wait(drained, (turn + 1) & 1)
    sums.store(product)
    mbarrier.arrive(full, count=1)
    return turn + 1


@gluon.jit
def subtract_partition(
    source_ptr, l_ptr, barriers, sums, where, n,
    COLS: gl.constexpr, BESIDE: gl.constexpr, PIECE: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """A22 − P·Pᵀ, PIECE rows at a time. The first piece of A22 is on its way before its sum is there."""
    _, _, full, drained = barriers
    tiles, side, first, total = where
    ROWS: gl.constexpr = sums.shape[0]
    WIDTH: gl.constexpr = sums.shape[1]
    LAYOUT: gl.constexpr = tile_layout(num_warps)
    row = gl.arange(0, PIECE, gl.SliceLayout(1, LAYOUT))[:, None]
    col = gl.arange(0, WIDTH, gl.SliceLayout(0, LAYOUT))[None, :]
    turn = 0
    for t in range(gl.program_id(0), total, gl.num_programs(0)):
        matrix, top, left, wanted = place_of(t, tiles, side, first, ROWS, COLS, BESIDE)
        if wanted:
            for part in range(COLS // WIDTH):
                for piece in gl.static_range(ROWS // PIECE):
                    begin = matrix.to(gl.int64) * n * n + (top + piece * PIECE).to(gl.int64) * n + left + part * WIDTH
                    inside = (top + piece * PIECE + row < n) & (left + part * WIDTH + col < n)
                    a = gl.load(source_ptr + begin + row * n + col, mask=inside, other=0.0)
                    if piece == 0:
                        mbarrier.wait(full, turn & 1)
                    product = sums.slice(piece * PIECE, PIECE).load(LAYOUT)
                    gl.store(l_ptr + begin + row * n + col, a - product, mask=inside)
                mbarrier.arrive(drained, count=1)
                turn += 1


@gluon.jit(do_not_specialize=["tiles", "side", "total"])
def update_kernel(
    row_hi, row_lo, col_hi, col_lo, source_ptr, l_ptr, n, tiles, side, first, depth, padded, total,
    STAGES: gl.constexpr, BESIDE: gl.constexpr, SUBTRACTORS: gl.constexpr, PIECE: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """A − P·Pᵀ on tiles of the lower triangle of rows and columns from `first`, P the group's first `depth` columns."""
    ROWS: gl.constexpr = row_hi.block_type.shape[0]
    COLS: gl.constexpr = col_hi.block_type.shape[0]
    DEPTH: gl.constexpr = row_hi.block_type.shape[1]
    a_hi = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS, DEPTH], row_hi.layout)
    a_lo = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS, DEPTH], row_hi.layout)
    b_hi = gl.allocate_shared_memory(gl.float32, [STAGES, COLS, DEPTH], col_hi.layout)
    b_lo = gl.allocate_shared_memory(gl.float32, [STAGES, COLS, DEPTH], col_hi.layout)
    # Sixteen-byte pieces of a row change places with the row, so that eight rows of a product meet different banks.
    sums = gl.allocate_shared_memory(gl.float32, [ROWS, ROWS], gl.SwizzledSharedLayout(4, 1, 8, [1, 0]))
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    drained = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for s in gl.static_range(STAGES):
        mbarrier.init(ready.index(s), count=1)
        mbarrier.init(empty.index(s), count=1)
    mbarrier.init(full, count=1)
    mbarrier.init(drained, count=1)
    descs = (row_hi, row_lo, col_hi, col_lo)
    stages = (a_hi, a_lo, b_hi, b_lo)
    barriers = (ready, empty, full, drained)
    where = (tiles, side, first, total)
    gl.warp_specialize(
        [
            (product_partition, (stages, barriers, sums, where, depth, ROWS, COLS, BESIDE, num_warps)),
            (subtract_partition, (source_ptr, l_ptr, barriers, sums, where, n, COLS, BESIDE, PIECE, SUBTRACTORS)),
            (load_partition, (descs, stages, barriers, where, depth, padded, COLS, BESIDE)),
        ],
        [SUBTRACTORS, 1],
        [144, 24],
    )


class Step(NamedTuple):
    """A launch of `factor`, `solve` or `update`, as `custom_kernel` makes it."""

    what: str
    start: int
    """The first column that it writes."""
    depth: int
    """update: the columns of the group that it takes off. solve: those of the group to the left of start."""
    columns: int
    """How many columns it writes."""

    @property
    def fresh(self) -> bool:
        """Whether it is the first to read its part of A. What others read lies where L will be."""
        return self.start == (self.depth if self.what == "update" else 0)


def group_of(n: int) -> int:
    """Columns between two updates of the whole trailing matrix: as few as memory allows, for the sums' sake."""
    return 256 if n <= 8192 else 512


def plan(n: int) -> Iterator[Step]:
    """All launches, in order, for n > SMALL."""
    for group in range(0, n, group_of(n)):
        behind = min(group + group_of(n), n)
        for start in range(group, behind, BLOCK):
            if start > group:
                yield Step("update", start, start - group, BLOCK)
            yield Step("factor", start, 0, BLOCK)
            if start + BLOCK < n:
                yield Step("solve", start, start - group, BLOCK)
        if behind < n:
            yield Step("update", behind, behind - group, n - behind)


class Shape(NamedTuple):
    """Of an update."""

    columns: int
    """Of a tile, which has BLOCK rows."""
    beside: int
    """Columns of tiles that are gone through together."""
    depth: int
    """Columns of the panel that are multiplied at a time: 64 bytes of a row."""
    stages: int
    """How many of those are in shared memory."""
    subtractors: int
    """Warps that subtract, a power of two."""


COLUMN = Shape(BLOCK, 1, 16, 4, 4)
NARROW = Shape(BLOCK, BESIDE, 16, 4, 4)
# Reads less from the L2 for the same product. Its sums are 128 registers a thread, which ptxas grants blocks of at most
# 384 threads, setmaxnreg or not: that leaves four warps for the rest.
WIDE = Shape(2 * BLOCK, BESIDE, 16, 3, 2)


def tile_count(side: int, shape: Shape) -> int:
    """Tiles of a launch's triangle: what `tile_of` goes through, Σ_g beside·(side − g·beside), or one column of it."""
    if shape is COLUMN:
        return side
    squares = sum(shape.beside * (side - first) for first in range(0, side, shape.beside))
    return squares * shape.columns // BLOCK


def shape_of(step: Step, batch: int, multiprocessors: int) -> Shape:
    """Wide tiles where every multiprocessor gets a few of them."""
    if step.columns == BLOCK:
        return COLUMN
    enough = batch * step.columns**2 >= 2 * 4 * multiprocessors * BLOCK * WIDE.columns
    return WIDE if enough else NARROW


@functools.cache
def multiprocessors_of(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def described(matrix: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """For boxes of rows × columns of a matrix, swizzled as `wgmma` reads them."""
    box = [rows, columns]
    return TensorDescriptor.from_tensor(matrix, box, gl.NVMMASharedLayout.get_default_for(box, gl.float32))


class Scratch:
    """The split panel of a group and the split inverse of a diagonal block, of every matrix."""

    def __init__(self, data: torch.Tensor) -> None:
        batch, n, _ = data.shape
        self.padded = triton.cdiv(n, BLOCK) * BLOCK
        self.panel = data.new_empty(2, batch * self.padded, group_of(n))
        self.inverse = data.new_empty(2, batch * BLOCK, BLOCK)


def factor(step: Step, source: torch.Tensor, out: torch.Tensor, scratch: Scratch) -> None:
    batch, n, _ = out.shape
    inverse = scratch.inverse if step.start + BLOCK < n else (None, None)
    factor_kernel[(batch,)](source, out, *inverse, n, step.start, N=BLOCK, W=STRIP, num_warps=BLOCK // WARP)


def solve(step: Step, source: torch.Tensor, out: torch.Tensor, scratch: Scratch) -> None:
    batch, n, _ = out.shape
    inverse = [described(half, BLOCK, CHUNK) for half in scratch.inverse]
    tiles = triton.cdiv(n - step.start - BLOCK, SOLVE_ROWS)
    where = n, step.start, step.depth, scratch.padded
    shape = {"GROUP": group_of(n), "ROWS": SOLVE_ROWS, "num_warps": 4}
    solve_kernel[(batch * tiles,)](source, out, *scratch.panel, *inverse, *where, **shape)


def update(step: Step, source: torch.Tensor, out: torch.Tensor, scratch: Scratch) -> None:
    batch, n, _ = out.shape
    multiprocessors = multiprocessors_of(out.device)
    shape = shape_of(step, batch, multiprocessors)
    rows = [described(half, BLOCK, shape.depth) for half in scratch.panel]
    columns = [described(half, shape.columns, shape.depth) for half in scratch.panel]
    side = triton.cdiv(n - step.start, shape.columns)
    tiles = tile_count(side, shape)
    where = n, tiles, side, step.start, step.depth, scratch.padded, batch * tiles
    meta = {"STAGES": shape.stages, "BESIDE": shape.beside, "SUBTRACTORS": shape.subtractors}
    meta |= {"PIECE": 16 * shape.subtractors, "num_warps": 8}
    update_kernel[(min(multiprocessors, batch * tiles),)](*rows, *columns, source, out, *where, **meta)


LAUNCH = {"factor": factor, "solve": solve, "update": update}


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    batch, n, _ = data.shape
    out = torch.empty_like(data)
    if n <= SMALL:
        size = 32 if n <= 32 else 64 if n <= 64 else 128
        factor_kernel[(batch,)](data, out, None, None, n, 0, N=size, W=STRIP, num_warps=size // WARP)
        return out
    scratch = Scratch(data)
    for step in plan(n):
        LAUNCH[step.what](step, data if step.fresh else out, out, scratch)
    return out
