#!POPCORN leaderboard cholesky
#!POPCORN gpu B200
"""The control of cholesky_cute_tcgen05_blocked.py: the allocation permit of tensor memory is given up late. No more.

There every CTA of `product_kernel` gives the permit up as soon as it has allocated its 128 columns, and four CTAs share
an SM. Here it keeps the permit until its tile is stored. While a CTA holds it, no other CTA of that SM can allocate, so
the second one waits at its first instruction that matters, and one works at a time: its fetching, multiplying and
storing follow one another with nothing in between to fill the gaps. Columns, shared memory, registers and threads still
allow four, and so say all tools that count them; only the placement of one instruction forbids it.

What that placement costs is not measured: neither file has run on a GPU.

Everything else is in the other file, and explained there. Compiled for sm_100a, not run here.
"""

import functools

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as blackwell
import torch
from cutlass import Float32, Int32, Int64, TFloat32, pipeline, utils
from cutlass._mlir.dialects import llvm
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import make_ptr
from task import input_t, output_t

TILE = 128
DEPTH = 16  # columns of a piece
SLOTS = 3  # of a piece of both factors, in flight
PANEL = 2  # block columns whose products are summed before they are subtracted
GROUP = 8  # columns of tiles that are worked through together
PART = (TILE, 32)  # of a sum, in registers at a time
TMEM_COLUMNS = 128
CTAS_PER_SM = 4
FETCHING_WARP, MULTIPLYING_WARP = 0, 1
THREADS = 128
WIDTH = 32  # columns that a thread of factor_kernel has in registers, and rows of a warp
PITCH = 4  # more than the width of a tile: rows start at different banks, and 16 bytes stay aligned
SMALL = 128  # the largest matrix of one launch
COLUMN, SOLVE, TRAILING = range(3)  # what becomes of a sum
ALIGNED = 32  # bytes
FOUR_PER_SM = {"min_blocks_per_mp": CTAS_PER_SM, "preferred_smem_carveout": 100}


@cute.struct
class Shared:
    full_and_empty: cute.struct.MemRange[cutlass.Int64, 2 * SLOTS]
    sum_done: cute.struct.MemRange[cutlass.Int64, 2]
    tmem: Int32


@cute.jit
def split(x: Float32):
    """hi and lo of x: x = hi + lo + O(2⁻²³·|x|). Infinities and NaN stay what they are in hi."""
    hi = rounded(x)
    return hi, rounded(x - hi)


@cute.jit
def rounded(x: Float32):
    """x to the nearest TF32."""
    return Float32(llvm.bitcast(Float32.mlir_type, cute.arch.cvt_f32_tf32(x)))


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
    """tcgen05.mma of TILE × TILE × 8 in TF32, both operands in shared memory, K-major."""
    return blackwell.make_trivial_tiled_mma(
        TFloat32, TFloat32, OperandMajorMode.K, OperandMajorMode.K, Float32, tcgen05.CtaGroup.ONE, (TILE, TILE)
    )


@cute.jit
def fetch(producer: pipeline.PipelineProducer, operands: tuple, places: tuple, first, steps, pieces: cute.Tensor):
    """Slots of hi and of lo by turns: a piece of the left factor, from piece `first` on, and one of the right."""
    part = tile_mma().get_slice(0)
    for step in cutlass.range(steps, unroll=1):
        for which in cutlass.range_constexpr(2):
            slot = producer.acquire_and_advance()
            for side in cutlass.range_constexpr(2):
                atom, operand = operands[side][which]
                tiles = part.partition_A(cute.local_tile(operand, (TILE, DEPTH), (places[side], None)))
                to, source = cpasync.tma_partition(
                    atom, 0, cute.make_layout(1), cute.group_modes(pieces, 0, 3), cute.group_modes(tiles, 0, 3)
                )
                at = step + first if side == 0 else step
                cute.copy(atom, source[None, at], to[None, 2 * slot.index + side], tma_bar_ptr=slot.barrier)
    producer.tail()


@cute.jit
def multiply(consumer: pipeline.PipelineConsumer, steps, pieces: cute.Tensor, sums: cute.Tensor):
    """sums = Σ hi·hi + lo·hi + hi·lo. A pair of slots is free when the tensor cores have read both."""
    mma = tile_mma()
    left, right = mma.make_fragment_A(pieces), mma.make_fragment_B(pieces)
    mma.set(tcgen05.Field.ACCUMULATE, False)
    for _ in cutlass.range(steps, unroll=1):
        hi = consumer.wait_and_advance()
        for k in cutlass.range_constexpr(DEPTH // 8):
            a, b = (None, None, k, 2 * hi.index), (None, None, k, 2 * hi.index + 1)
            cute.gemm(mma, sums, left[a], right[b], sums)
            mma.set(tcgen05.Field.ACCUMULATE, True)
        lo = consumer.wait_and_advance()
        for one, other in ((lo, hi), (hi, lo)):
            for k in cutlass.range_constexpr(DEPTH // 8):
                a, b = (None, None, k, 2 * one.index), (None, None, k, 2 * other.index + 1)
                cute.gemm(mma, sums, left[a], right[b], sums)
        hi.release()
        lo.release()


@cute.jit
def store_split(x: cute.Tensor, hi_to: cute.Tensor, lo_to: cute.Tensor):
    hi, lo = cute.make_rmem_tensor_like(x), cute.make_rmem_tensor_like(x)
    for e in cutlass.range_constexpr(cute.size(x)):
        hi[e], lo[e] = split(x[e])
    cute.autovec_copy(hi, hi_to)
    cute.autovec_copy(lo, lo_to)


@cute.jit
def store_zeros(tile: cute.Tensor, thread: Int32):
    """The tile above the diagonal that mirrors a solved one."""
    zeros = cute.make_rmem_tensor(4, Float32)
    zeros.fill(0.0)
    for row in cutlass.range(thread // 32, TILE, THREADS // 32, unroll=4):
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
    mma = tile_mma()
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
        shared = allocator.allocate(Shared)
        pieces = allocator.allocate_tensor(TFloat32, pieces_layout.outer, 1024, swizzle=pieces_layout.inner)
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        producer, consumer = pipeline.PipelineTmaUmma.create(
            barrier_storage=shared.full_and_empty.data_ptr(),
            num_stages=SLOTS,
            producer_group=one,
            consumer_group=one,
            tx_count=2 * TILE * DEPTH * 4,
        ).make_participants()
        sum_producer, sum_consumer = pipeline.PipelineUmmaAsync.create(
            barrier_storage=shared.sum_done.data_ptr(),
            num_stages=1,
            producer_group=one,
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS),
        ).make_participants()
        tmem = utils.TmemAllocator(
            shared.tmem.ptr, barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS)
        )
        tmem.allocate(TMEM_COLUMNS)
        tmem.wait_for_alloc()
        tmem_ptr = tmem.retrieve_ptr(Float32)
        sums = cute.make_tensor(tmem_ptr, mma.make_fragment_C(mma.partition_shape_C((TILE, TILE))).layout)

        if warp == FETCHING_WARP:
            # All matrices of the batch are below one another.
            left, right, first = matrix * blocks + row, matrix * blocks + column, Int32(0)
            if cutlass.const_expr(kind == SOLVE):
                right, first = matrix, slot * (TILE // DEPTH)
            fetch(producer, operands, (left, right), first, steps, pieces)
        if warp == MULTIPLYING_WARP:
            whole = sum_producer.acquire_and_advance()
            multiply(consumer, steps, pieces, sums)
            whole.commit()

        load = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32, tcgen05.Pack.NONE), Float32)
        sum_parts = cute.flat_divide(sums[(None, None), 0, 0], PART)
        copy = tcgen05.make_tmem_copy(load, sum_parts[None, None, 0, 0])
        mine = copy.get_slice(thread)
        from_sum = mine.partition_S(sum_parts)
        before, here = [
            mine.partition_D(cute.flat_divide(cute.local_tile(x, (TILE, TILE), (row, column, matrix)), PART))
            for x in (source, factor)
        ]
        there = (Int64(matrix * blocks + row), slot)  # a panel may have more than 2³¹ numbers
        hi_here, lo_here = [
            mine.partition_D(cute.flat_divide(cute.local_tile(x, (TILE, TILE), there), PART)) for x in panel
        ]
        x = cute.make_rmem_tensor(mine.partition_D(cute.make_identity_tensor(PART)).shape, Float32)
        a = cute.make_rmem_tensor_like(x)
        result = sum_consumer.wait_and_advance()
        for p in cutlass.range_constexpr(TILE // PART[1]):
            part = (None, None, None, 0, p)
            if cutlass.const_expr(kind != SOLVE):
                cute.autovec_copy(before[part], a)
            x.fill(0.0)
            if steps > 0:
                cute.copy(copy, from_sum[part], x)
                cute.arch.fence_view_async_tmem_load()
            if cutlass.const_expr(kind != SOLVE):
                x.store(a.load() - x.load())
            if cutlass.const_expr(kind != COLUMN):
                cute.autovec_copy(x, here[part])
            if cutlass.const_expr(kind == COLUMN):
                if row == column:
                    cute.autovec_copy(x, here[part])
                else:
                    store_split(x, hi_here[part], lo_here[part])
            if cutlass.const_expr(kind == SOLVE):
                store_split(x, hi_here[part], lo_here[part])
        if cutlass.const_expr(kind == SOLVE):
            store_zeros(cute.local_tile(factor, (TILE, TILE), (column, row, matrix)), thread)
        result.release()
        # The other CTAs of the SM can't allocate before this.
        tmem.relinquish_alloc_permit()
        cute.arch.sync_threads()
        tmem.free(tmem_ptr)


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
def operand(matrix: cute.Tensor, pieces_layout: cute.ComposedLayout, mma: cute.TiledMma):
    """How TMA fetches pieces of it: an atom, and the tensor of its coordinates."""
    atom, places = cute.nvgpu.make_tiled_tma_atom_A(
        cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE), cute.recast_tensor(matrix, TFloat32),
        cute.slice_(pieces_layout, (None, None, None, 0)), (TILE, TILE, DEPTH), mma, (1, 1, 1, 1),
    )  # fmt: skip
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

    mma = tile_mma()
    # Both factors have 128 rows: the left one's layout is the right one's, too.
    pieces_layout = blackwell.make_smem_layout_a(mma, (TILE, TILE, DEPTH), TFloat32, 2 * SLOTS)
    of_panel = tuple(operand(x, pieces_layout, mma) for x in panel)
    of_inverses = tuple(operand(x, pieces_layout, mma) for x in inverses)
    blocks = n // TILE
    for block in cutlass.range(blocks, unroll=1):
        slot = block % PANEL
        source = factor_ptr
        if block < PANEL:  # nothing has been subtracted yet
            source = data_ptr
        source = matrices(source, n, batch, TILE)
        below = blocks - block - 1

        product_kernel(
            (of_panel, of_panel), pieces_layout, source, factor, panel,
            block, block, slot, slot * (TILE // DEPTH), COLUMN,
        ).launch(grid=(batch * (below + 1), 1, 1), block=(THREADS, 1, 1), stream=stream, **FOUR_PER_SM)  # fmt: skip
        factor_kernel(factor, factor, inverses, block, n, TILE, True, True).launch(
            grid=(batch, 1, 1), block=(2 * TILE, 1, 1), stream=stream
        )
        if below > 0:
            product_kernel(
                (of_panel, of_inverses), pieces_layout, source, factor, panel,
                block + 1, block, slot, TILE // DEPTH, SOLVE,
            ).launch(grid=(batch * below, 1, 1), block=(THREADS, 1, 1), stream=stream, **FOUR_PER_SM)  # fmt: skip
            if slot == PANEL - 1:
                product_kernel(
                    (of_panel, of_panel), pieces_layout, source, factor, panel,
                    block + 1, block + 1, slot, PANEL * TILE // DEPTH, TRAILING,
                ).launch(
                    grid=(batch * tile_count(below), 1, 1), block=(THREADS, 1, 1), stream=stream, **FOUR_PER_SM
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
