#!POPCORN leaderboard cholesky
#!POPCORN gpu H200
"""The blocked algorithm in Gluon, every layout said, every product on the FMA units (`gl.dot_fma`): fp32 throughout.

With A split as [[A11, ·], [A21, A22]] and A11 of BLOCK columns, for all matrices of the batch at once:

    factor_kernel    L11 = factor of A11           POTF2; one program a matrix
    solve_kernel     L21 = A21·L11⁻ᵀ               TRSM by substitution; one program for ROWS rows
    update_kernel    A22 = A22 − L21·L21ᵀ          SYRK; one program for a tile of the lower triangle

Gluon is Triton with its layouts in the open: which thread holds which element is written down, and how shared memory is
filled. Two layouts carry this file.

*A row a thread* (`row_layout`) for POTF2 and TRSM. All columns of a strip of W are registers of the row's thread, so
taking column k out of the strip, at a k known to the compiler, costs nothing. What a thread lacks is L_jk for the other
rows j, and it lacks the same ones as everybody else: a column of L passes through shared memory once and is read by
broadcast. Tiles lie there by columns, so that neighbouring threads touch neighbouring words.

*A block of 4 × 4, repeated 2 × 2* (`update_layout`) for SYRK: eight columns and eight rows of operands feed 64
multiplications, both fetched sixteen bytes at a time. solve_kernel writes L21 a second time, by columns, so that both
operands of a tile come in as [depth, rows] by `cp.async` and lie in shared memory as the threads want them.

A trailing matrix that goes through memory once for every BLOCK columns would be bound by that. So columns come in
groups of GROUP: inside a group a block first takes off what the group's columns to its left explain (left-looking);
the trailing matrix is updated once a group. `plan` is the order of all launches.

n ≤ 128 is one launch of factor_kernel. Sizes that no block divides are padded by an identity in registers.

Good at being read, and nothing in it is Hopper's alone: compiled for sm_80, sm_90a and sm_100a by Triton 3.7.1, for the
last two by 3.6 as well (where update_kernel takes 198 registers on sm_90a instead of 113, so that one program fits
instead of two), run on sm_90 only. The FMA units bound it where tensor cores would not. Its residual on an H200 is at
most 3.5 times cuSOLVER's (1·2048 `spectrum`). There, by Triton 3.6, 938.8 µs by geomean over the board's 15 cases, 2.74
times cuSOLVER: 7.96 times at n = 32, slower at one matrix of 4096 (0.72, by device events 0.77), 1.07 at one of 8192,
1.03 at one of 16384, 0.96 at one of 32768.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
from task import input_t, output_t
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

WARP = 32
STRIP = 32  # columns that a thread holds of its row
SMALL = 128  # the largest n of one launch
BLOCK = 64  # columns of a panel
GROUP = 256  # columns between two updates of the whole trailing matrix
ROWS = 128  # of a tile
DEPTH = 16  # columns multiplied at a time, the fewest that dot_fma takes


@gluon.constexpr_function
def row_layout(width, num_warps):
    """[WARP·num_warps, width]: a row a thread."""
    return gl.BlockedLayout([1, width], [WARP, 1], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def coalesced_layout(num_warps):
    """[·, STRIP] in memory by rows: eight threads for the 128 bytes of a row, sixteen bytes each."""
    return gl.BlockedLayout([1, 4], [WARP // 8, 8], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def update_layout(num_warps):
    """Blocks of 4 × 4 that repeat over a tile; the lanes of a warp lie 4 × 8, warps two side by side."""
    return gl.BlockedLayout([4, 4], [4, 8], [num_warps // 2, 2], [1, 0])


@gluon.constexpr_function
def fetch_layout(num_warps):
    """[·, ·] by rows, sixteen bytes a thread, as `cp.async` copies best."""
    return gl.BlockedLayout([1, 4], [1, WARP], [num_warps, 1], [1, 0])


@gluon.jit
def reciprocal_root(x):
    """1/√x: the hardware's approximation and one step of Newton's. NaN where x is negative, and where it is zero."""
    r = gl.rsqrt(x)
    return r + r * (0.5 - 0.5 * (x * r) * r)


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
def factor_kernel(source_ptr, l_ptr, corner_ptr, n, start, N: gl.constexpr, W: gl.constexpr, num_warps: gl.constexpr):
    """L11 of N columns, zeros above its diagonal; for TRSM also its columns, reciprocals on the diagonal, in `corner`.

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
    if corner_ptr is not None:
        row = gl.arange(0, N, gl.SliceLayout(1, COALESCED))[:, None]
        col = gl.arange(0, N, gl.SliceLayout(0, COALESCED))[None, :]
        table = columns._reinterpret(gl.float32, [N, N], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
        gl.store(corner_ptr + matrix * N * N + row * N + col, table.load(COALESCED))


@gluon.jit
def solve_kernel(
    source_ptr, l_ptr, corner_ptr, panel_ptr, n, start, depth, stride,
    BLOCK: gl.constexpr, GROUP: gl.constexpr, ROWS: gl.constexpr, W: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """ROWS rows of L21, one a thread; `panel` [GROUP, stride] receives them by columns. The mirror image is zeroed."""
    LAYOUT: gl.constexpr = row_layout(W, num_warps)
    COALESCED: gl.constexpr = coalesced_layout(num_warps)
    LINE: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    tiles = gl.cdiv(n - start - BLOCK, ROWS)
    matrix = (gl.program_id(0) // tiles).to(gl.int64)
    below = start + BLOCK + gl.program_id(0) % tiles * ROWS

    columns = gl.allocate_shared_memory(gl.float32, [BLOCK, BLOCK], LINE)
    own = gl.allocate_shared_memory(gl.float32, [BLOCK, ROWS], LINE)
    table = columns._reinterpret(gl.float32, [BLOCK, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    r = gl.arange(0, BLOCK, gl.SliceLayout(1, COALESCED))[:, None]
    c = gl.arange(0, BLOCK, gl.SliceLayout(0, COALESCED))[None, :]
    table.store(gl.load(corner_ptr + matrix * BLOCK * BLOCK + r * BLOCK + c))

    tile = matrix * n * n + below.to(gl.int64) * n + start
    panel_ptr += (matrix * GROUP + depth) * stride + below
    row = gl.arange(0, ROWS, gl.SliceLayout(1, COALESCED))[:, None]
    thread = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))[:, None]
    for s in range(BLOCK // W):
        offset = row * n + s * W + gl.arange(0, W, gl.SliceLayout(0, COALESCED))[None, :]
        b = gl.load(source_ptr + tile + offset, mask=below + row < n, other=0.0)
        b = without_explained(gl.convert_layout(b, LAYOUT), own, columns, s)
        x = solve_strip(b, own, columns, s)
        gl.store(l_ptr + tile + offset, gl.convert_layout(x, COALESCED), mask=below + row < n)
        col = s * W + gl.arange(0, W, gl.SliceLayout(0, LAYOUT))[None, :]
        gl.store(panel_ptr + col * stride + thread, x)

    mirror = matrix * n * n + start.to(gl.int64) * n + below
    c = gl.arange(0, ROWS, gl.SliceLayout(0, COALESCED))[None, :]
    gl.store(l_ptr + mirror + r * n + c, gl.zeros([BLOCK, ROWS], gl.float32, COALESCED), mask=below + c < n)


@gluon.jit
def fetch(panel_ptr, stride, k, buffer, num_warps: gl.constexpr):
    """Starts the copy of `panel`'s columns k, ... (from the row that panel_ptr is at) into a buffer [depth, rows]."""
    LAYOUT: gl.constexpr = fetch_layout(num_warps)
    depth = k + gl.arange(0, buffer.shape[0], gl.SliceLayout(1, LAYOUT))[:, None]
    row = gl.arange(0, buffer.shape[1], gl.SliceLayout(0, LAYOUT))[None, :]
    async_copy.async_copy_global_to_shared(buffer, panel_ptr + depth * stride + row)


@gluon.jit
def update_kernel(
    source_ptr, l_ptr, panel_ptr, n, first, depth, tiles_across, stride,
    GROUP: gl.constexpr, ROWS: gl.constexpr, COLS: gl.constexpr, DEPTH: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    """A ROWS × COLS tile of A − P·Pᵀ, P the panel's `depth` columns. Programs above the diagonal have nothing to do."""
    tiles = tiles_across * gl.cdiv(n - first, ROWS)
    matrix = (gl.program_id(0) // tiles).to(gl.int64)
    top = first + gl.program_id(0) % tiles // tiles_across * ROWS
    left = first + gl.program_id(0) % tiles_across * COLS
    if left >= top + ROWS:
        return
    ACC: gl.constexpr = update_layout(num_warps)
    BUFFER: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    rows = gl.allocate_shared_memory(gl.float32, [2, DEPTH, ROWS], BUFFER)
    cols = gl.allocate_shared_memory(gl.float32, [2, DEPTH, COLS], BUFFER)
    panel_ptr += matrix * GROUP * stride
    fetch(panel_ptr + top, stride, 0, rows.index(0), num_warps)
    fetch(panel_ptr + left, stride, 0, cols.index(0), num_warps)
    async_copy.commit_group()
    product = gl.zeros([ROWS, COLS], gl.float32, ACC)
    for k in range(0, depth, DEPTH):
        slot = k // DEPTH % 2
        async_copy.wait_group(0)
        # The other buffers were read before the barrier that follows the wait. The last fetch is never read.
        following = gl.minimum(k + DEPTH, depth - DEPTH)
        fetch(panel_ptr + top, stride, following, rows.index(1 - slot), num_warps)
        fetch(panel_ptr + left, stride, following, cols.index(1 - slot), num_warps)
        async_copy.commit_group()
        a = rows.index(slot).permute((1, 0)).load(gl.DotOperandLayout(0, ACC, 0))
        b = cols.index(slot).load(gl.DotOperandLayout(1, ACC, 0))
        product = gl.dot_fma(a, b, product)
    async_copy.wait_group(0)
    row = gl.arange(0, ROWS, gl.SliceLayout(1, ACC))[:, None]
    col = gl.arange(0, COLS, gl.SliceLayout(0, ACC))[None, :]
    inside = (top + row < n) & (left + col < n)
    tile = matrix * n * n + top.to(gl.int64) * n + left
    offset = row * n + col
    gl.store(l_ptr + tile + offset, gl.load(source_ptr + tile + offset, mask=inside, other=0.0) - product, mask=inside)


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


def plan(n: int) -> Iterator[Step]:
    """All launches, in order, for n > SMALL."""
    for group in range(0, n, GROUP):
        behind = min(group + GROUP, n)
        for start in range(group, behind, BLOCK):
            if start > group:
                yield Step("update", start, start - group, BLOCK)
            yield Step("factor", start, 0, BLOCK)
            if start + BLOCK < n:
                yield Step("solve", start, start - group, BLOCK)
        if behind < n:
            yield Step("update", behind, GROUP, n - behind)


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    batch, n, _ = data.shape
    factor = torch.empty_like(data)
    if n <= SMALL:
        size = 32 if n <= 32 else 64 if n <= 64 else 128
        factor_kernel[(batch,)](data, factor, None, n, 0, N=size, W=STRIP, num_warps=size // WARP)
        return factor
    stride = (triton.cdiv(n, ROWS) + 1) * ROWS  # tiles of the last rows reach beyond n
    panel = data.new_empty(batch, GROUP, stride)
    corner = data.new_empty(batch, BLOCK, BLOCK)
    for step in plan(n):
        source = data if step.fresh else factor
        below = n - step.start if step.what == "update" else n - step.start - BLOCK
        tiles = triton.cdiv(below, ROWS)
        if step.what == "factor":
            shape = {"N": BLOCK, "W": STRIP, "num_warps": BLOCK // WARP}
            factor_kernel[(batch,)](source, factor, corner, n, step.start, **shape)
        elif step.what == "solve":
            shape = {"BLOCK": BLOCK, "GROUP": GROUP, "ROWS": ROWS, "W": STRIP, "num_warps": ROWS // WARP}
            where = n, step.start, step.depth, stride
            solve_kernel[(batch * tiles,)](source, factor, corner, panel, *where, **shape)
        else:
            width = min(step.columns, ROWS)
            across = triton.cdiv(step.columns, width)
            shape = {"GROUP": GROUP, "ROWS": ROWS, "COLS": width, "DEPTH": DEPTH, "num_warps": 8 * width // ROWS}
            where = n, step.start, step.depth, across, stride
            update_kernel[(batch * tiles * across,)](source, factor, panel, *where, **shape)
    return factor
