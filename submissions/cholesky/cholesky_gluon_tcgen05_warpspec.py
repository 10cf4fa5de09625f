#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""Gluon for Blackwell (sm_100a), the third of three: in the update, every kind of work has its own warps.

Everything but `update_kernel` is that of cholesky_gluon_tcgen05_persistent.py, and so are the update's tiles, ring of
stages, two accumulators and two buffers for A. The mathematics is in cholesky_gluon_tcgen05_blocked.py:

    factor_kernel    L_bb = chol(A_bb), and L_bb⁻¹    POTF2; rows of an identity go along and become L_bb⁻ᵀ
    solve_kernel     L_ib = A_ib·L_bb⁻ᵀ               TRSM, by the inverse a product
    update_kernel    A_ij = A_ij − Σ_b L_ib·L_jbᵀ     SYRK on the tiles i ≥ j of a trapezoid

What it adds:

**Warp specialization.** There, one stream of instructions had to take turns: all threads waited for a stage, one issued
the products, all went on to a slice of the tile before, and a slice that came late held the next stage up. Here

    fetch_operands    one warp      refills a stage as soon as it is read                       read → loaded
    multiply_tiles    one warp      issues products of stages, into an empty accumulator        loaded, emptied → done
    subtract_tiles    four warps    take an accumulator out slice by slice, A through buffers   done → emptied

and each waits only for what it needs, by the barriers on the right. The first two have no barrier of the whole thread
block in their loops, and need few registers: 64 a thread, so that the third has 192.

Good at letting no kind of work wait for another's turn.

Compiled for sm_100a and sm_103a, not run here. On the CPU these functions were run as Python, over torch, with random
delays of all that is asynchronous.
"""

import functools
from typing import NamedTuple

import torch
from task import input_t, output_t
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    get_tmem_reg_layout,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.runtime.jit import constexpr_function

BLOCK = gl.constexpr(128)  # rows and columns of a block: a tile of tensor memory has that many rows
WIDTH = gl.constexpr(32)  # columns of it that a thread keeps in registers
DEPTH = gl.constexpr(16)  # columns of a piece
PIECES = gl.constexpr(8)  # of a block
STAGES = gl.constexpr(3)  # of the solution, in flight
RING = gl.constexpr(4)  # stages of the update, which go on from tile to tile
PANEL = 2  # block columns whose products are summed before they are subtracted
SMALL = 64

PIECE_LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=4 * DEPTH.value, element_bitwidth=32, rank=2)
SLICE_LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=4 * WIDTH.value, element_bitwidth=32, rank=2)


@constexpr_function
def row_layout(rows, columns):
    """A row in each thread, as they read tensor memory."""
    memory = TensorMemoryLayout([128, columns], col_stride=1)
    return get_tmem_reg_layout(gl.float32, (rows, columns), memory, num_warps=rows // 32)


@gluon.jit
def rounded(x):
    """x to the nearest TF32. The instruction keeps infinities and NaN as they are."""
    return gl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=gl.float32, is_pure=True, pack=1)


@gluon.jit
def parts(x):
    """hi and lo of x: x = hi + lo + O(2⁻²³·|x|)."""
    hi = rounded(x)
    return hi, rounded(x - hi)


@gluon.jit
def multiply(a, b, total, use_acc):
    """total = A·Bᵀ, added to what it is if use_acc, of (hi, lo) of each. The small products go first."""
    tcgen05_mma(a[1], b[0].permute((1, 0)), total, use_acc=use_acc)
    tcgen05_mma(a[0], b[1].permute((1, 0)), total)
    tcgen05_mma(a[0], b[0].permute((1, 0)), total)


@gluon.jit
def taken(values, index, k: gl.constexpr, axis: gl.constexpr):
    """Element k along an axis that every thread has in registers: with a constant k, nothing but a register's name.

    The masked sum of bits is an OR, whose zeros the compiler drops; it has to keep the additions of x + 0.0.
    """
    bits = gl.where(index == k, values.to(gl.uint32, bitcast=True), 0)
    return gl.reduce_or(bits, axis).to(gl.float32, bitcast=True)


@gluon.jit
def reciprocal_root(x):
    """1/√x: the hardware's approximation and one step of Newton's."""
    r = gl.rsqrt(x)
    return r + r * (0.5 - 0.5 * x * r * r)


@gluon.jit
def eliminated(tile, k: gl.constexpr, root, across):
    """The tile after step k: column k is divided by the pivot's root, and its part in the columns to its right is gone.

    `across` is column k again, before the division, as a row.
    """
    col = gl.arange(0, tile.shape[1], gl.SliceLayout(0, tile.type.layout))[None, :]
    column = taken(tile, col, k, 1) * root
    rest = tile - (column * root)[:, None] * across[None, :]
    return gl.where(col > k, rest, gl.where(col == k, column[:, None], tile))


@gluon.jit
def factored(tile, part):
    """The columns of `tile` factored. Of its parts of as many rows as it has columns, `part` has the pivots."""
    WIDTH: gl.constexpr = tile.shape[1]
    PARTS: gl.constexpr = tile.shape[0] // WIDTH
    across_layout: gl.constexpr = gl.SliceLayout(0, tile.type.layout)
    index = gl.arange(0, WIDTH, across_layout)
    line_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    # Two, so that a column is written while the one before may still be read: one barrier a column.
    even = gl.allocate_shared_memory(gl.float32, [tile.shape[0]], line_layout)
    odd = gl.allocate_shared_memory(gl.float32, [tile.shape[0]], line_layout)
    for k in gl.static_range(WIDTH):
        line = even if k % 2 == 0 else odd
        line.store(taken(tile, index[None, :], k, 1))
        across = line._reinterpret(gl.float32, [PARTS, WIDTH], line_layout).index(part).load(across_layout)
        root = reciprocal_root(taken(across, index, k, 0))
        tile = eliminated(tile, k, root, across)
    return tile


@gluon.jit
def small_kernel(source, factor, n, WIDE: gl.constexpr):
    """One matrix of up to WIDE rows, a row in each thread. What is outside is padded by an identity."""
    layout: gl.constexpr = gl.BlockedLayout([1, WIDE], [32, 1], [WIDE // 32, 1], [1, 0])
    row = gl.arange(0, WIDE, gl.SliceLayout(1, layout))[:, None]
    col = gl.arange(0, WIDE, gl.SliceLayout(0, layout))[None, :]
    offset = gl.program_id(0).to(gl.int64) * n * n + row * n + col
    inside = (row < n) & (col < n)
    a = gl.load(source + offset, mask=inside, other=0.0)
    a = gl.where((row == col) & (row >= n), 1.0, a)
    a = factored(a, 0)
    gl.store(factor + offset, gl.where(row >= col, a, 0.0), mask=inside)


@gluon.jit(do_not_specialize=["block"])
def factor_kernel(source, factor, inverse, size, block, ROWS: gl.constexpr):
    """L_bb, with zeros above its diagonal, and with 256 ROWS hi and lo of L_bb⁻¹: [2, BLOCK, BLOCK] for each matrix.

    The tile is A_bb, and below it an identity: the steps that make L of the one make I·L⁻ᵀ of the other. Columns are
    taken WIDTH at a time; by then the products of all columns before them are in tensor memory.
    """
    SLICES: gl.constexpr = BLOCK // WIDTH
    rows: gl.constexpr = row_layout(ROWS, WIDTH)
    operand_layout: gl.constexpr = gl.NVMMASharedLayout(4 * WIDTH, 32, rank=2)
    left = gl.allocate_shared_memory(gl.float32, [2, ROWS, WIDTH], operand_layout)
    right_hi = left.index(0)._reinterpret(gl.float32, [ROWS // WIDTH, WIDTH, WIDTH], operand_layout)
    right_lo = left.index(1)._reinterpret(gl.float32, [ROWS // WIDTH, WIDTH, WIDTH], operand_layout)
    total_layout: gl.constexpr = TensorMemoryLayout([BLOCK, WIDTH], col_stride=1)
    totals = allocate_tensor_memory(gl.float32, [SLICES, ROWS, WIDTH], total_layout)
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)

    matrix = gl.program_id(0).to(gl.int64)
    row = gl.arange(0, ROWS, gl.SliceLayout(1, rows))[:, None]
    within = gl.arange(0, WIDTH, gl.SliceLayout(0, rows))[None, :]
    corner = matrix * size * size + block * BLOCK * (size.to(gl.int64) + 1) + row * size
    # Row k of the identity becomes row k of L⁻ᵀ, which is column k of L⁻¹: neighbours in a row of the inverse.
    column_of_inverse = matrix * 2 * BLOCK * BLOCK + row - BLOCK
    for s in range(SLICES):
        col = s * WIDTH + within
        identity = gl.where(row - BLOCK == col, 1.0, 0.0)
        tile = gl.load(source + corner + col, mask=row < BLOCK, other=identity)
        if s > 0:
            mbarrier.wait(done, (s - 1) % 2)
            tile -= totals.index(s).load(rows)
        tile = factored(tile, s)
        tile = gl.where(row >= col, tile, 0.0)
        hi, lo = parts(tile)
        gl.store(factor + corner + col, tile, mask=row < BLOCK)
        gl.store(inverse + column_of_inverse + col * BLOCK, hi, mask=row >= BLOCK)
        gl.store(inverse + column_of_inverse + (BLOCK + col) * BLOCK, lo, mask=row >= BLOCK)
        if s + 1 < SLICES:
            left.index(0).store(hi)
            left.index(1).store(lo)
            fence_async_shared()
            for later in range(s + 1, SLICES):
                right = (right_hi.index(later), right_lo.index(later))
                multiply((left.index(0), left.index(1)), right, totals.index(later), s > 0)
            tcgen05_commit(done)


@gluon.jit
def barriers(count: gl.constexpr):
    """That many barriers, each for one arrival."""
    array = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(array.index(i), count=1)
    return array


@gluon.jit
def solve_stage(source, inverse, row, row_of_inverse, first, p, loaded, left, right, pred):
    """Fetches piece p of A_ib, and the same columns of hi and lo of L_bb⁻¹."""
    stage = p % STAGES
    arrived = loaded.index(stage)
    mbarrier.expect(arrived, 3 * source.block_type.nbytes, pred=pred)
    tma.async_copy_global_to_shared(source, [row, first + p * DEPTH], arrived, left.index(2 * stage), pred)
    for part in gl.static_range(2):
        at = [row_of_inverse + part * BLOCK, p * DEPTH]
        tma.async_copy_global_to_shared(inverse, at, arrived, right.index(2 * stage + part), pred)


@gluon.jit
def multiply_stage(left, right, stage, total, use_acc, read):
    """total = A·Bᵀ, or adds it, of hi and lo of both in that stage. `read` tells when they are free."""
    a = (left.index(2 * stage), left.index(2 * stage + 1))
    b = (right.index(2 * stage), right.index(2 * stage + 1))
    multiply(a, b, total, use_acc)
    tcgen05_commit(read.index(stage))


@gluon.jit(do_not_specialize=["block", "slot"])
def solve_kernel(source, inverse, factor, hi_panel, lo_panel, factor_pointer, size, block, slot):
    """One block L_ib = A_ib·L_bb⁻ᵀ, i > b, to its place, hi and lo to a slot of the panel. Its mirror image is zero."""
    rows: gl.constexpr = row_layout(BLOCK, DEPTH)
    left = gl.allocate_shared_memory(gl.float32, [2 * STAGES, BLOCK, DEPTH], source.layout)
    right = gl.allocate_shared_memory(gl.float32, [2 * STAGES, BLOCK, DEPTH], source.layout)
    loaded, read, done = barriers(STAGES), barriers(STAGES), barriers(1)
    total_layout: gl.constexpr = TensorMemoryLayout([BLOCK, BLOCK], col_stride=1)
    total = allocate_tensor_memory(gl.float32, [BLOCK, BLOCK], total_layout)

    solved = size // BLOCK - block - 1
    matrix = gl.program_id(0) // solved
    below = block + 1 + gl.program_id(0) % solved
    row = matrix * size + below * BLOCK
    first = block * BLOCK
    row_of_inverse = matrix * 2 * BLOCK
    for p in gl.static_range(STAGES):
        solve_stage(source, inverse, row, row_of_inverse, first, p, loaded, left, right, True)
    for p in range(PIECES):
        stage = p % STAGES
        mbarrier.wait(loaded.index(stage), p // STAGES % 2)
        hi, lo = parts(left.index(2 * stage).load(rows))
        left.index(2 * stage).store(hi)
        left.index(2 * stage + 1).store(lo)
        fence_async_shared()
        multiply_stage(left, right, stage, total, p > 0, read)
        # The stage before this one is refilled: its product has had the time of this one's splitting.
        q = p - 1 + STAGES
        again = (p > 0) & (q < PIECES)
        mbarrier.wait(read.index(q % STAGES), (q // STAGES - 1) % 2, again)
        solve_stage(source, inverse, row, row_of_inverse, first, q, loaded, left, right, again)
    tcgen05_commit(done.index(0))
    mbarrier.wait(done.index(0), 0)

    # L, hi and lo leave through what were the stages.
    for p in gl.static_range(PIECES):
        stage = p % STAGES
        if p >= STAGES:
            tma.store_wait(3 * (STAGES - 1))
        x = total.slice(p * DEPTH, DEPTH).load(rows)
        hi, lo = parts(x)
        left.index(2 * stage).store(hi)
        left.index(2 * stage + 1).store(lo)
        right.index(2 * stage).store(x)
        fence_async_shared()
        tma.async_copy_shared_to_global(hi_panel, [row, slot * BLOCK + p * DEPTH], left.index(2 * stage))
        tma.async_copy_shared_to_global(lo_panel, [row, slot * BLOCK + p * DEPTH], left.index(2 * stage + 1))
        tma.async_copy_shared_to_global(factor, [row, first + p * DEPTH], right.index(2 * stage))
    along: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    zero_row = matrix.to(gl.int64) * size + first + gl.arange(0, BLOCK, gl.SliceLayout(1, along))
    zero_col = below * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, along))
    zeros = gl.zeros([BLOCK, BLOCK], gl.float32, along)
    gl.store(factor_pointer + zero_row[:, None] * size + zero_col[None, :], zeros)
    tma.store_wait(0)


@gluon.jit
def tile_of(t, rows, columns, span):
    """(i, j) of tile t in a trapezoid whose column j holds the tiles i = span·j, ..., rows − 1.

    Column j and the one as far from the right end are together as long as every other such pair, so that a division
    finds the pair; of an odd number of columns, the one in the middle comes last and is half a pair.
    """
    pair = 2 * rows - span * (columns - 1)
    j = t // pair
    down = t % pair
    own = rows - span * j
    if down >= own:
        down -= own
        j = columns - 1 - j
    return span * j + down, j


@gluon.jit
def place_of(number, region, SPAN: gl.constexpr):
    """Where this program's tile of that number is: its first row, that of its right factor, and its first column.

    A region is the trapezoid: its tiles in a matrix, its tile columns, the block at its corner, and the matrix's size.
    """
    tiles, columns, start, size = region
    t = gl.program_id(0) + number * gl.num_programs(0)
    i, j = tile_of(t % tiles, size // BLOCK - start, columns, SPAN)
    top = t // tiles * size + start * BLOCK
    return top + i * BLOCK, top + SPAN * j * BLOCK, (start + SPAN * j) * BLOCK


@gluon.jit
def fetch_step(panel, step, steps, slot, region, loaded, left, right, pred, SPAN: gl.constexpr):
    """Fetches what a step multiplies, counted through all tiles: hi and lo of a piece of L_i, and of L_j."""
    stage = step % RING
    arrived = loaded.index(stage)
    row, row_of_right, _ = place_of(step // steps, region, SPAN)
    col = slot * BLOCK + step % steps * DEPTH
    mbarrier.expect(arrived, 2 * (panel[0].block_type.nbytes + panel[2].block_type.nbytes), pred=pred)
    for part in gl.static_range(2):
        at = 2 * stage + part
        tma.async_copy_global_to_shared(panel[part], [row, col], arrived, left.index(at), pred)
        tma.async_copy_global_to_shared(panel[2 + part], [row_of_right, col], arrived, right.index(at), pred)


@gluon.jit
def fetch_slice(source, x, count, region, fetched, buffers, SPAN: gl.constexpr):
    """Fetches slice x of A, counted through all of the program's tiles, if there is one."""
    SLICES: gl.constexpr = SPAN * BLOCK // WIDTH
    there = x < count * SLICES
    arrived = fetched.index(x % 2)
    row, _, col = place_of(x // SLICES, region, SPAN)
    mbarrier.expect(arrived, source.block_type.nbytes, pred=there)
    at = [row, col + x % SLICES * WIDTH]
    tma.async_copy_global_to_shared(source, at, arrived, buffers.index(x % 2), there)


@gluon.jit
def subtract_slice(source, factor, x, count, region, fetched, buffers, slices, SPAN: gl.constexpr):
    """Slice x of A less that of the sum, to the factor's place. The slice after it is fetched meanwhile."""
    SLICES: gl.constexpr = SPAN * BLOCK // WIDTH
    rows: gl.constexpr = row_layout(BLOCK, WIDTH)
    row, _, col = place_of(x // SLICES, region, SPAN)
    a = buffers.index(x % 2)
    mbarrier.wait(fetched.index(x % 2), x // 2 % 2)
    a.store(a.load(rows) - slices.index(x % (2 * SLICES)).load(rows))
    fence_async_shared()
    tma.async_copy_shared_to_global(factor, [row, col + x % SLICES * WIDTH], a)
    tma.store_wait(1)  # of the other buffer
    fetch_slice(source, x + 1, count, region, fetched, buffers, SPAN)


@gluon.jit
def fetch_operands(panel, steps, slot, region, count, loaded, read, left, right, SPAN: gl.constexpr):
    for step in range(count * steps):
        # The first time round nobody has read, and the phase before a barrier's first counts as over.
        mbarrier.wait(read.index(step % RING), (step // RING + 1) % 2)
        fetch_step(panel, step, steps, slot, region, loaded, left, right, True, SPAN)


@gluon.jit
def multiply_tiles(steps, count, loaded, read, done, emptied, left, right, totals):
    for m in range(count):
        mbarrier.wait(emptied.index(m % 2), (m // 2 + 1) % 2)
        for step in range(m * steps, (m + 1) * steps):
            mbarrier.wait(loaded.index(step % RING), step // RING % 2)
            multiply_stage(left, right, step % RING, totals.index(m % 2), step > m * steps, read)
        tcgen05_commit(done.index(m % 2))


@gluon.jit
def subtract_tiles(source, factor, region, count, fetched, done, emptied, buffers, slices, SPAN: gl.constexpr):
    SLICES: gl.constexpr = SPAN * BLOCK // WIDTH
    fetch_slice(source, 0, count, region, fetched, buffers, SPAN)
    for m in range(count):
        mbarrier.wait(done.index(m % 2), m // 2 % 2)
        for x in range(m * SLICES, (m + 1) * SLICES):
            subtract_slice(source, factor, x, count, region, fetched, buffers, slices, SPAN)
        mbarrier.arrive(emptied.index(m % 2), count=1)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["start", "columns", "slot", "steps", "tiles", "total"])
def update_kernel(
    hi_left, lo_left, hi_right, lo_right, source, factor,
    size, start, columns, slot, steps, tiles, total, SPAN: gl.constexpr,
):  # fmt: skip
    """The tiles A_ij − Σ L_ik·L_jkᵀ of the trapezoid with its corner at block `start`; the sum has `steps` steps."""
    SLICES: gl.constexpr = SPAN * BLOCK // WIDTH
    left = gl.allocate_shared_memory(gl.float32, [2 * RING, BLOCK, DEPTH], hi_left.layout)
    right = gl.allocate_shared_memory(gl.float32, [2 * RING, SPAN * BLOCK, DEPTH], hi_right.layout)
    buffers = gl.allocate_shared_memory(gl.float32, [2, BLOCK, WIDTH], source.layout)
    loaded, read, fetched, done, emptied = barriers(RING), barriers(RING), barriers(2), barriers(2), barriers(2)
    total_layout: gl.constexpr = TensorMemoryLayout([BLOCK, SPAN * BLOCK], col_stride=1)
    slice_layout: gl.constexpr = TensorMemoryLayout([BLOCK, WIDTH], col_stride=1)
    totals = allocate_tensor_memory(gl.float32, [2, BLOCK, SPAN * BLOCK], total_layout)
    slices = totals._reinterpret(gl.float32, [2 * SLICES, BLOCK, WIDTH], slice_layout)

    panel = (hi_left, lo_left, hi_right, lo_right)
    region = (tiles, columns, start, size)
    count = (total - gl.program_id(0) + gl.num_programs(0) - 1) // gl.num_programs(0)
    gl.warp_specialize(
        [
            (subtract_tiles, (source, factor, region, count, fetched, done, emptied, buffers, slices, SPAN)),
            (fetch_operands, (panel, steps, slot, region, count, loaded, read, left, right, SPAN)),
            (multiply_tiles, (steps, count, loaded, read, done, emptied, left, right, totals)),
        ],
        [1, 1],
        [64, 64],
    )


class Step(NamedTuple):
    """What follows block column `block`, once it is solved and in its slot of the panel."""

    block: int
    slot: int
    """Its own place in the panel."""
    first_slot: int
    """The update sums from here to `slot`."""
    columns: int
    """How many block columns right of `block` are updated; 0 after the last."""
    fresh: bool
    """Whether these are updated for the first time, and so read from the original."""


def plan(blocks: int) -> list[Step]:
    """A panel's columns update one another one by one, and all that is right of the panel together."""
    steps = []
    for block in range(blocks):
        slot = block % PANEL
        full = slot == PANEL - 1
        end = blocks if full else min(block - slot + PANEL, blocks)
        fresh = block == 0 or (full and block < PANEL)
        steps.append(Step(block, slot, 0 if full else slot, end - block - 1, fresh))
    return steps


def tile_count(rows: int, columns: int, span: int) -> int:
    """Of the trapezoid of `tile_of`."""
    return columns * (2 * rows - span * (columns - 1)) // 2


def pieces_of(matrices: torch.Tensor, span: int = 1) -> TensorDescriptor:
    """[..., columns] as rows of one matrix, to be moved in pieces of that many blocks' rows."""
    rows = matrices.view(-1, matrices.shape[-1])
    return TensorDescriptor.from_tensor(rows, [span * BLOCK.value, DEPTH.value], PIECE_LAYOUT)


def slices_of(matrices: torch.Tensor) -> TensorDescriptor:
    """The same, in slices as wide as a thread's registers."""
    rows = matrices.view(-1, matrices.shape[-1])
    return TensorDescriptor.from_tensor(rows, [BLOCK.value, WIDTH.value], SLICE_LAYOUT)


@functools.lru_cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def padded(data: torch.Tensor, size: int) -> torch.Tensor:
    """[batch, size, size] with the matrices in the corner, an identity below: its factor has theirs in the corner."""
    n = data.shape[-1]
    a = torch.eye(size, device=data.device).repeat(data.shape[0], 1, 1)
    a[:, :n, :n] = data
    return a


def factor_small(data: torch.Tensor) -> torch.Tensor:
    batch, n, _ = data.shape
    factor = torch.empty_like(data)
    wide = 32 if n <= 32 else 64
    small_kernel[(batch,)](data, factor, n, WIDE=wide, num_warps=wide // 32)
    return factor


def update(operands: dict[int, list[TensorDescriptor]], source, factor, shape: torch.Size, step: Step) -> None:
    """Launches the update of a step. operands: hi and lo of the panel for both factors, for each width of a tile."""
    batch, size, _ = shape
    start = step.block + 1
    rows = size // BLOCK.value - start
    span = 2 if step.columns == rows else 1  # a wide tile may reach beyond the matrix, but not into other columns
    columns = -(-step.columns // span)
    tiles = tile_count(rows, columns, span)
    steps = (step.slot + 1 - step.first_slot) * PIECES.value
    update_kernel[(min(batch * tiles, multiprocessors(factor.base.device)),)](
        *operands[span], source, factor, size, start, columns, step.first_slot, steps, tiles, batch * tiles,
        SPAN=span, num_warps=4, maxnreg=128,
    )  # fmt: skip


def factor_blocks(a: torch.Tensor) -> torch.Tensor:
    """The factors of [batch, size, size], size a multiple of BLOCK."""
    batch, size, _ = a.shape
    blocks = size // BLOCK.value
    factor = torch.empty_like(a)
    inverse = a.new_empty(batch, 2, BLOCK.value, BLOCK.value)
    if blocks == 1:
        factor_kernel[(batch,)](a, factor, inverse, size, 0, ROWS=BLOCK.value, num_warps=4)
        return factor
    panel = [a.new_empty(batch, size, PANEL * BLOCK.value) for _ in range(2)]
    narrow, wide = ([pieces_of(part, span) for part in panel] for span in (1, 2))
    operands = {1: narrow + narrow, 2: narrow + wide}
    original, result, inverses = pieces_of(a), pieces_of(factor), pieces_of(inverse)
    original_slices, result_slices = slices_of(a), slices_of(factor)
    for step in plan(blocks):
        below = blocks - step.block - 1
        source = a if step.block == 0 else factor
        rows = 2 * BLOCK.value if below else BLOCK.value
        factor_kernel[(batch,)](source, factor, inverse, size, step.block, ROWS=rows, num_warps=rows // 32)
        if below:
            pieces = original if step.block == 0 else result
            solve_kernel[(batch * below,)](
                pieces, inverses, result, *narrow, factor, size, step.block, step.slot, num_warps=4
            )  # fmt: skip
        if step.columns:
            update(operands, original_slices if step.fresh else result_slices, result_slices, a.shape, step)
    return factor


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    if data.data_ptr() % 16:  # where TMA may begin
        data = data.clone()
    n = data.shape[-1]
    if n <= SMALL:
        return factor_small(data)
    size = -(-n // BLOCK.value) * BLOCK.value
    if size == n:
        return factor_blocks(data)
    return factor_blocks(padded(data, size))[:, :n, :n].contiguous()
