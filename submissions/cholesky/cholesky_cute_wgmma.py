#!POPCORN leaderboard cholesky
#!POPCORN gpu H200
"""CuTe DSL for Hopper (sm_90a): the blocked algorithm on wgmma in 3×TF32, its loop over blocks compiled, too.

L is made a block column of 128 at a time, for all matrices of the batch at once; two block columns are a panel:

    column    C_ib = A_ib − Σ_k L_ik·L_bkᵀ    over the columns k of the panel before b
    factor    L_bb = chol(C_bb), and L_bb⁻¹   POTF2
    solve     L_ib = C_ib·L_bb⁻ᵀ              TRSM, by the inverse a product
    trailing  A_ij = A_ij − Σ_k L_ik·L_jkᵀ    SYRK for all j right of the panel, over all of the panel

Three of the four are one kernel, `product_kernel`: a tile of 128 × 128 is a sum of products of two operands, and what
becomes of the sum is the difference. The trailing matrix goes through memory once for 256 columns.

**3×TF32.** x = hi + lo, each rounded to TF32's 11 bits, leaves 2⁻²³·|x|, and x·y = lo·hi + hi·lo + hi·hi + O(2⁻²²).
Every operand is split once, by whoever makes it: `column` writes hi and lo of C_ib into the panel, `solve` reads them
there and leaves hi and lo of L_ib in their place, `factor` writes those of L_bb⁻¹. No kernel splits what it reads, so
all products are the same: TMA brings four pieces, hi and lo of both factors, and three products follow. A sum is never
longer than a panel before fp32 registers subtract it, which keeps small what a tensor core loses by truncating.

**product_kernel.** One warp fetches, STAGES ahead, by TMA and mbarriers; two warpgroups multiply 64 rows each. Pieces
are 128 rows × 16 columns in wgmma's order (K-major, 64-byte swizzle). 96 KiB of stages and 112 registers leave room for
two CTAs an SM: one multiplies while the other subtracts. Tiles are drawn in groups of GROUP columns, row by row, so
that CTAs that run together read the same rows of the panel.

**factor_kernel.** A row in each thread, 32 columns of it in registers. A warp factors the diagonal 32 × 32 alone, with
no barrier but its own; after it all rows below substitute at once. Rows of an identity, in as many more warps, go
through the same steps and become I·L⁻ᵀ: the inverse takes no steps of its own. Where n ≤ 128 a matrix is one launch of
this kernel, of one, two or four warps.

The host program, `cholesky`, is compiled as well: one call launches everything. Sizes are run-time values, so there is
one compilation for n > 128, and for n ≤ 128 two for each number of warps: n of 32, 64, 128, and less. It is loaded on
the device of its first call; a process uses one, which is the current one.
Above, what is no multiple of 128 is padded by an identity in a copy. The root of a negative pivot is NaN, and so is
what follows.

Good at large matrices and large batches, where products are most of the time. In between, launches wait for each other:
a block column is three in a row, one of them a factorisation that a single CTA does for each matrix.

DSL 4.7 has no class for wgmma's TF32 though its compiler knows it; `Tf32Mma` is that class.

On an H200, by DSL 4.7.1, 707.5 µs by geomean over the board's 15 cases, 3.61 times cuSOLVER: 8.0 at n = 32, 1.03 at one
matrix of 4096, where a block column takes 55 µs, 2.06 at one of 32768. On the CPU the host program gives right factors,
with the kernels' PTX emulated and with their mathematics in torch.
"""

import functools

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass import Boolean, Float32, Int32, Int64, TFloat32, pipeline, utils
from cutlass._mlir.dialects import cute_nvgpu
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_ptr
from task import input_t, output_t

TILE = 128
DEPTH = 16  # columns of a piece
STAGES = 3
PANEL = 2  # block columns whose products are summed before they are subtracted
GROUP = 8  # columns of tiles that are worked through together
WIDTH = 32  # columns that a thread of factor_kernel has in registers, and rows of a warp
PITCH = 4  # more than the width of a tile: rows start at different banks, and 16 bytes stay aligned
SMALL = 128  # the largest matrix of one launch
CONSUMER_WARPS, PRODUCER_WARP = 8, 8
THREADS = 32 * 9
LEFT_HI, LEFT_LO, RIGHT_HI, RIGHT_LO = range(4)  # pieces of a stage
COLUMN, SOLVE, TRAILING = range(3)  # what becomes of a sum
ALIGNED = 32  # bytes
TWO_PER_SM = {"min_blocks_per_mp": 2, "preferred_smem_carveout": 100}


class Tf32Mma(warpgroup.mma.MmaOp):
    """wgmma of 64 × TILE × 8 in TF32, added to the sums, both operands in shared memory, K-major."""

    descriptive_name = "warpgroup TF32 MMA Operation"

    def __init__(self):
        source, major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        super().__init__(TFloat32, TFloat32, Float32, (64, TILE, 8), source, major, major)

    def _make_trait(self, *, loc=None, ip=None, **_):
        types = (TFloat32.mlir_type, TFloat32.mlir_type, Float32.mlir_type)
        shape = cute.core._pack_shape(self.shape_mnk, loc=loc, ip=ip).type.attribute
        major = self.a_major_mode._to_ir()
        atom = cute_nvgpu.MmaAtomSM90Type.get(shape, major, major, *types, self.a_src._to_ir())
        accumulate = Boolean(True).ir_value(loc=loc, ip=ip)
        return warpgroup.mma.MmaTraits(cute.atom.make_atom(atom, [accumulate], loc=loc, ip=ip))


@cute.jit
def split(x: Float32):
    """hi and lo of x: x = hi + lo + O(2⁻²³·|x|). Infinities and NaN stay what they are in hi."""
    hi = rounded(x)
    return hi, rounded(x - hi)


@cute.jit
def rounded(x: Float32):
    """x to the nearest TF32."""
    return Float32(cutlass._mlir.dialects.llvm.bitcast(Float32.mlir_type, cute.arch.cvt_f32_tf32(x)))


@cute.jit
def reciprocal_root(x: Float32):
    """1/√x: the hardware's approximation and one step of Newton's."""
    r = cute.math.rsqrt(x, fastmath=True)
    return r + r * (0.5 - 0.5 * x * r * r)


# POTF2 -----------------------------------------------------------------------------------------------------------


@cute.jit
def subtract_column(a: cute.Tensor, columns: cute.Tensor, k: cutlass.Constexpr, first: cutlass.Constexpr):
    """a[j] −= a[k]·L[j, k] for j ≥ first. columns[k, j] is L[j, k], the same for all threads: four in a read."""
    four = cute.make_rmem_tensor(4, Float32)
    for quad in cutlass.range_constexpr(first // 4, WIDTH // 4):
        cute.autovec_copy(cute.local_tile(columns, (1, 4), (k, quad))[0, None], four)
        for e in cutlass.range_constexpr(4):
            if cutlass.const_expr(4 * quad + e >= first):
                a[4 * quad + e] = a[4 * quad + e] - a[k] * four[e]


@cute.jit
def factor_diagonal(a: cute.Tensor, columns: cute.Tensor):
    """32 × 32 in a warp, a row in each lane. columns[k, j] becomes L[j, k] for j > k, and columns[k, k] 1/L[k, k].

    What takes time is the chain pivot → root → column → next pivot. Its part of the update comes by shuffles, ahead of
    the rest, which waits for what goes through shared memory.
    """
    lane = cute.arch.lane_idx()
    root = reciprocal_root(cute.arch.shuffle_sync(a[0], 0))
    for k in cutlass.range_constexpr(WIDTH):
        a[k] = a[k] * root
        kept = a[k]
        if lane == k:
            kept = root
        columns[k, lane] = kept
        if cutlass.const_expr(k + 1 < WIDTH):
            a[k + 1] = a[k + 1] - a[k] * cute.arch.shuffle_sync(a[k], k + 1)
            root = reciprocal_root(cute.arch.shuffle_sync(a[k + 1], k + 1))
        cute.arch.sync_warp()
        subtract_column(a, columns, k, k + 2)


@cute.jit
def substitute(a: cute.Tensor, columns: cute.Tensor):
    """A row of X·Lᵀ = A for the L that `columns` holds.

    The compiler would read far ahead, and run out of registers; it moves nothing across a barrier.
    """
    for k in cutlass.range_constexpr(WIDTH):
        a[k] = a[k] * columns[k, k]
        subtract_column(a, columns, k, k + 1)
        cute.arch.sync_warp()


@cute.jit
def subtract_before(a: cute.Tensor, tile: cute.Tensor, row: Int32, first: Int32, strip: Int32):
    """a[j] −= Σ_k tile[row, k]·L[j, k] over the columns k from `first` to this strip, j the strip's rows of L."""
    own = cute.make_rmem_tensor(4, Float32)
    four = cute.make_rmem_tensor(4, Float32)
    for quad in cutlass.range(first // 4, strip * (WIDTH // 4), unroll=1):
        cute.autovec_copy(cute.local_tile(tile, (1, 4), (row, quad))[0, None], own)
        for j in cutlass.range_constexpr(WIDTH):
            cute.autovec_copy(cute.local_tile(tile, (1, 4), (strip * WIDTH + j, quad))[0, None], four)
            for e in cutlass.range_constexpr(4):
                a[j] = a[j] - own[e] * four[e]
            if cutlass.const_expr(j % 8 == 7):
                cute.arch.sync_warp()


@cute.jit
def load_tile(source: cute.Tensor, tile: cute.Tensor, n: Int32, size: cutlass.Constexpr, exact: cutlass.Constexpr):
    """size × size to shared memory, and an identity below where `tile` has more rows. What is outside n: identity."""
    thread, _, _ = cute.arch.thread_idx()
    vector = 4 if exact else 1
    across = size // vector
    down = tile.shape[0] // across  # rows of a step: there are as many threads as rows in the tile
    some = cute.make_rmem_tensor(vector, Float32)
    group = thread % across
    for row in cutlass.range(thread // across, tile.shape[0], down, unroll=8):
        for e in cutlass.range_constexpr(vector):
            some[e] = Float32(group * vector + e == row % size)
        if row < size and (exact or (row < n and group < n)):
            cute.autovec_copy(cute.local_tile(source, (1, vector), (row, group))[0, None], some)
        cute.autovec_copy(some, cute.local_tile(tile, (1, vector), (row, group))[0, None])


@cute.jit
def store_factor(tile: cute.Tensor, factor: cute.Tensor, n: Int32, size: cutlass.Constexpr, exact: cutlass.Constexpr):
    """The lower triangle, and zeros above it."""
    thread, _, _ = cute.arch.thread_idx()
    vector = 4 if exact else 1
    across = size // vector
    some = cute.make_rmem_tensor(vector, Float32)
    group = thread % across
    for row in cutlass.range(thread // across, size, tile.shape[0] // across, unroll=4):
        cute.autovec_copy(cute.local_tile(tile, (1, vector), (row, group))[0, None], some)
        for e in cutlass.range_constexpr(vector):
            if group * vector + e > row:
                some[e] = Float32(0.0)
        if exact or (row < n and group < n):
            cute.autovec_copy(some, cute.local_tile(factor, (1, vector), (row, group))[0, None])


@cute.jit
def store_inverse(tile: cute.Tensor, inverse: tuple):
    """Row k below the tile is row k of L⁻ᵀ, so column k of L⁻¹: the threads of a warp write neighbours."""
    thread, _, _ = cute.arch.thread_idx()
    hi_of, lo_of = inverse
    k, half = thread % TILE, thread // TILE
    four = cute.make_rmem_tensor(4, Float32)
    for step in cutlass.range(TILE // 8, unroll=2):
        quad = 2 * step + half
        cute.autovec_copy(cute.local_tile(tile, (1, 4), (TILE + k, quad))[0, None], four)
        for e in cutlass.range_constexpr(4):
            hi, lo = split(four[e])
            hi_of[4 * quad + e, k] = hi
            lo_of[4 * quad + e, k] = lo


@cute.kernel
def factor_kernel(
    source: cute.Tensor,
    factor: cute.Tensor,
    inverses: tuple,
    block: Int32,
    n: Int32,
    size: cutlass.Constexpr,
    exact: cutlass.Constexpr,
    invert: cutlass.Constexpr,
):
    """The diagonal block of each matrix, [n, n, batch]; with `invert`, hi and lo of its inverse, [TILE·batch, TILE]."""
    matrix, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    strips = size // WIDTH
    rows = size * (1 + invert)
    allocator = utils.SmemAllocator()
    tile = allocator.allocate_tensor(Float32, cute.make_layout((rows, size), stride=(size + PITCH, 1)), 16)
    columns = allocator.allocate_tensor(Float32, cute.make_layout((WIDTH, WIDTH), stride=(WIDTH, 1)), 16)
    here = (block, block, matrix)
    load_tile(cute.local_tile(source, (size, size), here), tile, n, size, exact)
    cute.arch.sync_threads()

    of_identity = warp >= strips
    own_strip = warp % strips
    a = cute.make_rmem_tensor(WIDTH, Float32)
    for strip in cutlass.range(strips, unroll=1):
        # L is empty above its diagonal and L⁻ᵀ below it: in every strip, five of eight warps have something to do.
        active = (own_strip >= strip) != of_identity or own_strip == strip
        mine = cute.local_tile(tile, (1, WIDTH), (thread, strip))[0, None]
        if active:
            cute.autovec_copy(mine, a)
            first = Int32(0)
            if of_identity:
                first = own_strip * WIDTH
            subtract_before(a, tile, thread, first, strip)
        if warp == strip:
            factor_diagonal(a, columns)
        cute.arch.sync_threads()
        if active:
            if warp != strip:
                substitute(a, columns)
            cute.autovec_copy(a, mine)
        cute.arch.sync_threads()

    store_factor(tile, cute.local_tile(factor, (size, size), here), n, size, exact)
    if cutlass.const_expr(invert):
        hi, lo = inverses
        there = (Int64(matrix), 0)
        store_inverse(tile, (cute.local_tile(hi, (TILE, TILE), there), cute.local_tile(lo, (TILE, TILE), there)))


# Products --------------------------------------------------------------------------------------------------------


def tile_count(rows):
    """How many numbers `tile_of` takes for the lower triangle: Σ (rows − g·GROUP)·GROUP over groups g."""
    groups = (rows + GROUP - 1) // GROUP
    return GROUP * (groups * rows - GROUP * (groups * (groups - 1) // 2))


@cute.jit
def tile_of(t: Int32, rows: Int32):
    """(i, j) of tile t: GROUP columns at a time, row by row. Of the first rows, some tiles lie above the diagonal."""
    start = Int32(0)
    while t >= (rows - start) * GROUP:
        t -= (rows - start) * GROUP
        start += GROUP
    return start + t // GROUP, start + t % GROUP


@cute.jit
def tile_mma():
    """Two warpgroups, one below the other."""
    return cute.make_tiled_mma(cute.make_mma_atom(Tf32Mma()), (2, 1, 1))


@cute.jit
def fetch(producer: pipeline.PipelineProducer, operands: tuple, places: tuple, first, steps, pieces: cute.Tensor):
    """Pieces 4·stage, ... of a stage: hi and lo of the left factor, from piece `first` on, and of the right one."""
    for step in cutlass.range(steps, unroll=1):
        stage = producer.acquire_and_advance()
        for which in cutlass.range_constexpr(4):
            atom, operand = operands[which]
            to, source = cpasync.tma_partition(
                atom, 0, cute.make_layout(1),
                cute.group_modes(pieces, 0, 2),
                cute.group_modes(cute.local_tile(operand, (TILE, DEPTH), (places[which], None)), 0, 2),
            )  # fmt: skip
            at = step + first if which < 2 else step
            cute.copy(atom, source[None, at], to[None, 4 * stage.index + which], tma_bar_ptr=stage.barrier)
    producer.tail()


@cute.jit
def multiply(consumer: pipeline.PipelineConsumer, thread, steps, pieces: cute.Tensor):
    """Σ lo·hi + hi·lo + hi·hi: the small products of a stage first."""
    mma = tile_mma()
    part = mma.get_slice(thread)
    left = mma.make_fragment_A(part.partition_A(pieces))
    right = mma.make_fragment_B(part.partition_B(pieces))
    sums = cute.make_rmem_tensor(mma.partition_shape_C((TILE, TILE)), Float32)
    sums.fill(0.0)
    for _ in cutlass.range(steps, unroll=1):
        stage = consumer.wait_and_advance()
        first = 4 * stage.index
        warpgroup.fence()
        for a, b in ((LEFT_LO, RIGHT_HI), (LEFT_HI, RIGHT_LO), (LEFT_HI, RIGHT_HI)):
            for k in cutlass.range_constexpr(DEPTH // 8):
                cute.gemm(mma, sums, left[None, None, k, first + a], right[None, None, k, first + b], sums)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        stage.release()
    return sums


@cute.jit
def subtract_from(source: cute.Tensor, sums: cute.Tensor):
    """sums = source − sums. A quarter at a time: a read waits for none of its kind, and registers are few."""
    for quarter in cutlass.range_constexpr(4):
        some = cute.make_rmem_tensor((2, 2, 4), Float32)
        for q in cutlass.range_constexpr(4):
            cute.autovec_copy(source[(None, None, 4 * quarter + q), 0, 0], some[None, None, q])
        for q in cutlass.range_constexpr(4):
            mine = sums[(None, None, 4 * quarter + q), 0, 0]
            mine.store(some[None, None, q].load() - mine.load())


@cute.jit
def store(sums: cute.Tensor, to: cute.Tensor):
    for q in cutlass.range_constexpr(TILE // 8):
        here = ((None, None, q), 0, 0)
        cute.autovec_copy(sums[here], to[here])


@cute.jit
def store_split(sums: cute.Tensor, hi_to: cute.Tensor, lo_to: cute.Tensor):
    for q in cutlass.range_constexpr(TILE // 8):
        here = ((None, None, q), 0, 0)
        mine = sums[here]
        hi, lo = cute.make_rmem_tensor_like(mine), cute.make_rmem_tensor_like(mine)
        for e in cutlass.range_constexpr(4):
            hi[e], lo[e] = split(mine[e])
        cute.autovec_copy(hi, hi_to[here])
        cute.autovec_copy(lo, lo_to[here])


@cute.jit
def store_zeros(tile: cute.Tensor, thread: Int32):
    """The tile above the diagonal that mirrors a solved one."""
    zeros = cute.make_rmem_tensor(4, Float32)
    zeros.fill(0.0)
    for row in cutlass.range(thread // 32, TILE, CONSUMER_WARPS, unroll=4):
        cute.autovec_copy(zeros, cute.local_tile(tile, (1, 4), (row, thread % 32))[0, None])


@cute.kernel
def product_kernel(
    operands: tuple,
    pieces_layout: cute.ComposedLayout,
    source: cute.Tensor,
    factor: cute.Tensor,
    panel: tuple,
    first_row: Int32,
    first_column: Int32,
    slot: Int32,
    steps: Int32,
    kind: cutlass.Constexpr,
):
    """One tile, a sum of `steps` pieces, and what becomes of it. Tiles start at block (first_row, first_column).

    The panel's hi and lo of a column are in `slot`, those of a panel's first column in slot 0.
    """
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    thread, _, _ = cute.arch.thread_idx()
    cta, _, _ = cute.arch.block_idx()
    blocks = factor.shape[0] // TILE
    rows = blocks - first_row
    if cutlass.const_expr(kind == TRAILING):
        tiles = tile_count(rows)
        i, j = tile_of(cta % tiles, rows)
    else:
        tiles = rows
        i, j = cta % tiles, Int32(0)
    matrix = cta // tiles
    row, column = first_row + i, first_column + j
    if row >= column:
        allocator = utils.SmemAllocator()
        barriers = allocator.allocate_array(Int64, 2 * STAGES)
        pieces = allocator.allocate_tensor(TFloat32, pieces_layout.outer, 1024, swizzle=pieces_layout.inner)
        producer, consumer = pipeline.PipelineTmaAsync.create(
            barrier_storage=barriers,
            num_stages=STAGES,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMER_WARPS),
            tx_count=4 * TILE * DEPTH * 4,
        ).make_participants()

        if warp == PRODUCER_WARP:
            # All matrices of the batch are below one another.
            left, right, first = matrix * blocks + row, matrix * blocks + column, Int32(0)
            if cutlass.const_expr(kind == SOLVE):
                right, first = matrix, slot * (TILE // DEPTH)
            fetch(producer, operands, (left, left, right, right), first, steps, pieces)
        else:
            sums = multiply(consumer, thread, steps, pieces)
            part = tile_mma().get_slice(thread)
            here = part.partition_C(cute.local_tile(factor, (TILE, TILE), (row, column, matrix)))
            there = (Int64(matrix * blocks + row), slot)  # a panel may have more than 2³¹ numbers
            hi_here, lo_here = [part.partition_C(cute.local_tile(x, (TILE, TILE), there)) for x in panel]
            if cutlass.const_expr(kind != SOLVE):
                subtract_from(part.partition_C(cute.local_tile(source, (TILE, TILE), (row, column, matrix))), sums)
            if cutlass.const_expr(kind != COLUMN):
                store(sums, here)
            if cutlass.const_expr(kind == COLUMN):
                if row == column:
                    store(sums, here)
                else:
                    store_split(sums, hi_here, lo_here)
            if cutlass.const_expr(kind == SOLVE):
                store_split(sums, hi_here, lo_here)
                store_zeros(cute.local_tile(factor, (TILE, TILE), (column, row, matrix)), thread)


# Host ------------------------------------------------------------------------------------------------------------


@cute.jit
def matrices(pointer: cute.Pointer, n: Int32, batch: Int32, divisor: cutlass.Constexpr):
    """[n, n, batch], by rows. `divisor` is one of n."""
    pitch = cute.assume(Int64(n), divisor)
    whole = cute.assume(pitch * n, divisor)
    return cute.make_tensor(pointer, cute.make_layout((n, n, batch), stride=(pitch, 1, whole)))


@cute.jit
def rows_of(pointer: cute.Pointer, rows: Int32, columns: cutlass.Constexpr):
    return cute.make_tensor(pointer, cute.make_layout((rows, columns), stride=(columns, 1)))


@cute.jit
def operand(matrix: cute.Tensor, piece: cute.ComposedLayout):
    """How TMA fetches pieces of it: an atom, and the tensor of its coordinates."""
    load = cpasync.CopyBulkTensorTileG2SOp()
    atom, places = cpasync.make_tiled_tma_atom(load, cute.recast_tensor(matrix, TFloat32), piece, (TILE, DEPTH))
    return atom, places


@cute.jit
def cholesky(
    data_ptr: cute.Pointer,
    factor_ptr: cute.Pointer,
    hi_ptr: cute.Pointer,
    lo_ptr: cute.Pointer,
    inverse_hi_ptr: cute.Pointer,
    inverse_lo_ptr: cute.Pointer,
    n: Int32,
    batch: Int32,
    stream: cuda.CUstream,
):
    """All launches for [batch, n, n], n a multiple of TILE. The panel is [batch·n, PANEL·TILE]."""
    factor = matrices(factor_ptr, n, batch, TILE)
    panel = tuple(rows_of(x, batch * n, PANEL * TILE) for x in (hi_ptr, lo_ptr))
    inverses = tuple(rows_of(x, batch * TILE, TILE) for x in (inverse_hi_ptr, inverse_lo_ptr))

    order = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW64, TFloat32)
    pieces_layout = cute.tile_to_shape(order, (TILE, DEPTH, 4 * STAGES), (0, 1, 2))
    one_piece = cute.slice_(pieces_layout, (None, None, 0))
    of_panel = tuple(operand(x, one_piece) for x in panel)
    of_inverses = tuple(operand(x, one_piece) for x in inverses)
    blocks = n // TILE
    for block in cutlass.range(blocks, unroll=1):
        slot = block % PANEL
        source = factor_ptr
        if block < PANEL:  # nothing has been subtracted yet
            source = data_ptr
        source = matrices(source, n, batch, TILE)
        below = blocks - block - 1

        product_kernel(
            (*of_panel, *of_panel), pieces_layout, source, factor, panel,
            block, block, slot, slot * (TILE // DEPTH), COLUMN,
        ).launch(grid=(batch * (below + 1), 1, 1), block=(THREADS, 1, 1), stream=stream, **TWO_PER_SM)  # fmt: skip
        factor_kernel(factor, factor, inverses, block, n, TILE, True, True).launch(
            grid=(batch, 1, 1), block=(2 * TILE, 1, 1), stream=stream
        )
        if below > 0:
            product_kernel(
                (*of_panel, *of_inverses), pieces_layout, source, factor, panel,
                block + 1, block, slot, TILE // DEPTH, SOLVE,
            ).launch(grid=(batch * below, 1, 1), block=(THREADS, 1, 1), stream=stream, **TWO_PER_SM)  # fmt: skip
            if slot == PANEL - 1:
                product_kernel(
                    (*of_panel, *of_panel), pieces_layout, source, factor, panel,
                    block + 1, block + 1, slot, PANEL * TILE // DEPTH, TRAILING,
                ).launch(
                    grid=(batch * tile_count(below), 1, 1), block=(THREADS, 1, 1), stream=stream, **TWO_PER_SM
                )  # fmt: skip


@cute.jit
def cholesky_small(
    data_ptr: cute.Pointer,
    factor_ptr: cute.Pointer,
    n: Int32,
    batch: Int32,
    stream: cuda.CUstream,
    size: cutlass.Constexpr,
    exact: cutlass.Constexpr,
):
    """The launch for [batch, n, n], n ≤ size; with `exact`, n = size."""
    divisor = size if exact else 1
    source, factor = matrices(data_ptr, n, batch, divisor), matrices(factor_ptr, n, batch, divisor)
    factor_kernel(source, factor, (), 0, n, size, exact, False).launch(
        grid=(batch, 1, 1), block=(size, 1, 1), stream=stream
    )


def pointers(*addresses: int) -> list[cute.Pointer]:
    return [make_ptr(Float32, address, cute.AddressSpace.gmem, assumed_align=ALIGNED) for address in addresses]


@functools.cache
def compiled():
    return cute.compile(cholesky, *pointers(*[0] * 6), 0, 0, cuda.CUstream(0))


@functools.cache
def compiled_small(size: int, exact: bool):
    return cute.compile(cholesky_small, *pointers(0, 0), 0, 0, cuda.CUstream(0), size, exact)


def padded(data: torch.Tensor, size: int) -> torch.Tensor:
    """[batch, size, size] with the matrices in the corner, an identity below: its factor has theirs in the corner."""
    n = data.shape[-1]
    a = torch.eye(size, device=data.device).repeat(data.shape[0], 1, 1)
    a[:, :n, :n] = data
    return a


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    if data.data_ptr() % ALIGNED:
        data = data.clone()
    batch, n, _ = data.shape
    stream = cuda.CUstream(torch.cuda.current_stream(data.device).cuda_stream)
    if n <= SMALL:
        factor = torch.empty_like(data)
        size = next(s for s in (32, 64, 128) if n <= s)
        compiled_small(size, n == size)(*pointers(data.data_ptr(), factor.data_ptr()), n, batch, stream)
        return factor
    size = -(-n // TILE) * TILE
    a = data if size == n else padded(data, size)
    factor = torch.empty_like(a)
    panel = a.new_empty(2, batch, size, PANEL * TILE)
    inverses = a.new_empty(2, batch, TILE, TILE)
    compiled()(*pointers(*(x.data_ptr() for x in (a, factor, *panel, *inverses))), size, batch, stream)
    return factor if size == n else factor[:, :n, :n].contiguous()
