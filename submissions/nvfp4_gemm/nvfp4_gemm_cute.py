#!POPCORN leaderboard nvfp4_gemm
#!POPCORN gpu B200
"""NVFP4 GEMM in CuTe DSL for Blackwell: TMA, tcgen05.mma with block scales, an accumulator in tensor memory.

One CTA, one tile of 128 × 128 of C, and a warp for each job:

    warp 5      fetches tiles of A, B and their reordered scales by TMA, STAGES ahead
    warp 4      copies a stage's scales to tensor memory, where the MMA wants them, and issues its MMAs
    warps 0–3   read the sums from tensor memory, cast them and store them: a warp sees 32 rows of it, so four see all

The board's reordered scales are the layout of the hardware's atom, 128 rows by 4 scales in 512 bytes, so the tensor of
scales is a matter of naming: `tile_atom_to_shape_SF`. Sizes are run-time values; one compilation serves all.

Compiled for sm_100a, not run here. n and k in multiples of 128 and 256 (all cases of the board); m is free: TMA fills
rows beyond it with zeros, and stores are predicated.
"""

import functools

import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as blackwell
import cutlass.utils.blockscaled_layout as blockscaled
from cutlass import Float4E2M1FN, Float8E4M3FN, Float16, Float32, Int32, pipeline, utils
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import make_ptr
from task import input_t, output_t

TILE = (128, 128, 256)
BLOCK = 16  # values of k that share a scale
STAGES = 5
EPILOGUE_WARPS, MMA_WARP, TMA_WARP = 4, 4, 5
THREADS = 32 * 6
TMEM_COLUMNS = 512


@cute.struct
class Shared:
    full_and_empty: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    sum_done: cute.struct.MemRange[cutlass.Int64, 2]
    tmem: Int32


@cute.jit
def partition(atom: cute.CopyAtom, shared: cute.Tensor, tiles: cute.Tensor):
    """Where TMA copies to, by stage, and from, by k tile. Scales lie with stride 0 along the values that share them."""
    to, source = cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(shared, 0, 3), cute.group_modes(tiles, 0, 3)
    )
    return cute.filter_zeros(to), cute.filter_zeros(source)


@cute.jit
def scales_to_tmem(shared_scales: cute.Tensor, tmem_scales: cute.Tensor):
    """The copy of all stages' scales to tensor memory: its atom, its sources and its destination."""
    atom = cute.make_copy_atom(tcgen05.Cp4x32x128bOp(tcgen05.CtaGroup.ONE), Float8E4M3FN)
    to = cute.filter_zeros(tmem_scales)
    copy = tcgen05.make_s2t_copy(atom, to)
    thread = copy.get_slice(0)
    source = tcgen05.get_s2t_smem_desc_tensor(copy, thread.partition_S(cute.filter_zeros(shared_scales)))
    return copy, source, thread.partition_D(to)


@cute.kernel
def gemm_kernel(
    mma: cute.TiledMma,
    tma_a: cute.CopyAtom,
    a: cute.Tensor,
    tma_b: cute.CopyAtom,
    b: cute.Tensor,
    tma_sfa: cute.CopyAtom,
    sfa: cute.Tensor,
    tma_sfb: cute.CopyAtom,
    sfb: cute.Tensor,
    c: cute.Tensor,
    a_layout: cute.ComposedLayout,
    b_layout: cute.ComposedLayout,
    sfa_layout: cute.Layout,
    sfb_layout: cute.Layout,
    stage_bytes: cutlass.Constexpr,
):
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    thread, _, _ = cute.arch.thread_idx()
    tile_m, tile_n, batch = cute.arch.block_idx()

    # Shared memory, barriers, tensor memory.
    allocator = utils.SmemAllocator()
    shared = allocator.allocate(Shared)
    s_a = allocator.allocate_tensor(Float4E2M1FN, a_layout.outer, byte_alignment=1024, swizzle=a_layout.inner)
    s_b = allocator.allocate_tensor(Float4E2M1FN, b_layout.outer, byte_alignment=1024, swizzle=b_layout.inner)
    s_sfa = allocator.allocate_tensor(Float8E4M3FN, sfa_layout, byte_alignment=128)
    s_sfb = allocator.allocate_tensor(Float8E4M3FN, sfb_layout, byte_alignment=128)
    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    producer, consumer = pipeline.PipelineTmaUmma.create(
        barrier_storage=shared.full_and_empty.data_ptr(),
        num_stages=STAGES,
        producer_group=one,
        consumer_group=one,
        tx_count=stage_bytes,
    ).make_participants()
    sum_producer, sum_consumer = pipeline.PipelineUmmaAsync.create(
        barrier_storage=shared.sum_done.data_ptr(),
        num_stages=1,
        producer_group=one,
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32 * EPILOGUE_WARPS),
    ).make_participants()
    tmem = utils.TmemAllocator(
        shared.tmem.ptr,
        barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS),
        allocator_warp_id=0,
    )
    tmem.allocate(TMEM_COLUMNS)
    tmem.wait_for_alloc()
    tmem_ptr = tmem.retrieve_ptr(Float32)

    # This tile of everything: (MMA, MMA_M or MMA_N, MMA_K, k tile).
    cta_mma = mma.get_slice(0)
    row_tiler, column_tiler = (TILE[0], TILE[2]), (TILE[1], TILE[2])
    g_a = cta_mma.partition_A(cute.local_tile(a, row_tiler, (tile_m, None, batch)))
    g_b = cta_mma.partition_B(cute.local_tile(b, column_tiler, (tile_n, None, batch)))
    g_sfa = cta_mma.partition_A(cute.local_tile(sfa, row_tiler, (tile_m, None, batch)))
    g_sfb = cta_mma.partition_B(cute.local_tile(sfb, column_tiler, (tile_n, None, batch)))
    g_c = cute.local_tile(c, TILE[:2], (tile_m, tile_n, batch))
    k_tiles = cute.size(g_a, mode=[3])

    sums = mma.make_fragment_C(mma.partition_shape_C(TILE[:2]))
    sums = cute.make_tensor(tmem_ptr, sums.layout)

    if warp == TMA_WARP:
        to_a, from_a = partition(tma_a, s_a, g_a)
        to_b, from_b = partition(tma_b, s_b, g_b)
        to_sfa, from_sfa = partition(tma_sfa, s_sfa, g_sfa)
        to_sfb, from_sfb = partition(tma_sfb, s_sfb, g_sfb)
        for k_tile in cutlass.range(k_tiles, unroll=1):
            slot = producer.acquire_and_advance()
            cute.copy(tma_a, from_a[None, k_tile], to_a[None, slot.index], tma_bar_ptr=slot.barrier)
            cute.copy(tma_b, from_b[None, k_tile], to_b[None, slot.index], tma_bar_ptr=slot.barrier)
            cute.copy(tma_sfa, from_sfa[None, k_tile], to_sfa[None, slot.index], tma_bar_ptr=slot.barrier)
            cute.copy(tma_sfb, from_sfb[None, k_tile], to_sfb[None, slot.index], tma_bar_ptr=slot.barrier)
        producer.tail()

    if warp == MMA_WARP:
        fragments_a, fragments_b = mma.make_fragment_A(s_a), mma.make_fragment_B(s_b)
        column = tcgen05.find_tmem_tensor_col_offset(sums)
        t_sfa = cute.make_tensor(
            cute.recast_ptr(tmem_ptr + column, dtype=Float8E4M3FN),
            blockscaled.make_tmem_layout_sfa(mma, TILE, BLOCK, cute.slice_(sfa_layout, (None, None, None, 0))),
        )
        column += tcgen05.find_tmem_tensor_col_offset(t_sfa)
        t_sfb = cute.make_tensor(
            cute.recast_ptr(tmem_ptr + column, dtype=Float8E4M3FN),
            blockscaled.make_tmem_layout_sfb(mma, TILE, BLOCK, cute.slice_(sfb_layout, (None, None, None, 0))),
        )
        copy_sfa, from_sfa, to_sfa = scales_to_tmem(s_sfa, t_sfa)
        copy_sfb, from_sfb, to_sfb = scales_to_tmem(s_sfb, t_sfb)
        result = sum_producer.acquire_and_advance()
        mma.set(tcgen05.Field.ACCUMULATE, False)
        for _ in cutlass.range(k_tiles, unroll=1):
            slot = consumer.wait_and_advance()
            stage = (None, None, None, None, slot.index)
            cute.copy(copy_sfa, from_sfa[stage], to_sfa)
            cute.copy(copy_sfb, from_sfb[stage], to_sfb)
            for k_block in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                mma.set(tcgen05.Field.SFA, t_sfa[None, None, k_block].iterator)
                mma.set(tcgen05.Field.SFB, t_sfb[None, None, k_block].iterator)
                block = (None, None, k_block, slot.index)
                cute.gemm(mma, sums, fragments_a[block], fragments_b[block], sums)
                mma.set(tcgen05.Field.ACCUMULATE, True)
            slot.release()
        result.commit()

    if warp < EPILOGUE_WARPS:
        load = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x128, tcgen05.Pack.NONE), Float32)
        copy = tcgen05.make_tmem_copy(load, sums[(None, None), 0, 0])
        mine = copy.get_slice(thread)
        source, to = mine.partition_S(sums[(None, None), 0, 0]), mine.partition_D(g_c)
        places = mine.partition_D(
            cute.local_tile(cute.make_identity_tensor(c.shape), TILE[:2], (tile_m, tile_n, batch))
        )
        loaded = cute.make_rmem_tensor(to.shape, Float32)
        rounded = cute.make_rmem_tensor(to.shape, Float16)
        result = sum_consumer.wait_and_advance()
        cute.copy(copy, source, loaded)
        cute.arch.fence_view_async_tmem_load()
        result.release()
        rounded.store(loaded.load().to(Float16))
        if places[0][0] < c.shape[0]:  # a thread has one row
            cute.autovec_copy(rounded, to)

    tmem.relinquish_alloc_permit()
    cute.arch.sync_threads()
    tmem.free(tmem_ptr)


@cute.jit
def gemm(
    a_ptr: cute.Pointer,
    b_ptr: cute.Pointer,
    sfa_ptr: cute.Pointer,
    sfb_ptr: cute.Pointer,
    c_ptr: cute.Pointer,
    m: Int32,
    n: Int32,
    k: Int32,
    batches: Int32,
):
    """A [m, k, batches], B [n, k, batches], k contiguous; scales reordered; C [m, n, batches], n contiguous."""
    k = cute.assume(k, 256)
    n = cute.assume(n, 128)
    a = cute.make_tensor(a_ptr, cute.make_layout((m, k, batches), stride=(k, 1, m * k)))
    b = cute.make_tensor(b_ptr, cute.make_layout((n, k, batches), stride=(k, 1, n * k)))
    c = cute.make_tensor(c_ptr, cute.make_layout((m, n, batches), stride=(n, 1, m * n)))
    sfa = cute.make_tensor(sfa_ptr, blockscaled.tile_atom_to_shape_SF(a.shape, BLOCK))
    sfb = cute.make_tensor(sfb_ptr, blockscaled.tile_atom_to_shape_SF(b.shape, BLOCK))

    mma = blackwell.make_blockscaled_trivial_tiled_mma(
        Float4E2M1FN, Float4E2M1FN, OperandMajorMode.K, OperandMajorMode.K, Float8E4M3FN, BLOCK,
        tcgen05.CtaGroup.ONE, TILE[:2],
    )  # fmt: skip
    a_layout = blackwell.make_smem_layout_a(mma, TILE, Float4E2M1FN, STAGES)
    b_layout = blackwell.make_smem_layout_b(mma, TILE, Float4E2M1FN, STAGES)
    sfa_layout = blockscaled.make_smem_layout_sfa(mma, TILE, BLOCK, STAGES)
    sfb_layout = blockscaled.make_smem_layout_sfb(mma, TILE, BLOCK, STAGES)

    fetch = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    one_stage = (None, None, None, 0)
    one_a, one_b = cute.slice_(a_layout, one_stage), cute.slice_(b_layout, one_stage)
    one_sfa, one_sfb = cute.slice_(sfa_layout, one_stage), cute.slice_(sfb_layout, one_stage)
    tma_a, a = cute.nvgpu.make_tiled_tma_atom_A(fetch, a, one_a, TILE, mma, (1, 1, 1, 1))
    tma_b, b = cute.nvgpu.make_tiled_tma_atom_B(fetch, b, one_b, TILE, mma, (1, 1, 1, 1))
    # 16 bits wide: one scale is a byte, less than the copy engine moves along a row.
    tma_sfa, sfa = cute.nvgpu.make_tiled_tma_atom_A(
        fetch, sfa, one_sfa, TILE, mma, (1, 1, 1, 1), internal_type=cutlass.Int16
    )
    tma_sfb, sfb = cute.nvgpu.make_tiled_tma_atom_B(
        fetch, sfb, one_sfb, TILE, mma, (1, 1, 1, 1), internal_type=cutlass.Int16
    )
    stage_bytes = (
        cute.size_in_bytes(Float4E2M1FN, one_a)
        + cute.size_in_bytes(Float4E2M1FN, one_b)
        + cute.size_in_bytes(Float8E4M3FN, one_sfa)
        + cute.size_in_bytes(Float8E4M3FN, one_sfb)
    )
    gemm_kernel(
        mma, tma_a, a, tma_b, b, tma_sfa, sfa, tma_sfb, sfb, c, a_layout, b_layout, sfa_layout, sfb_layout, stage_bytes
    ).launch(
        grid=(cute.ceil_div(m, TILE[0]), cute.ceil_div(n, TILE[1]), batches),
        block=(THREADS, 1, 1),
        cluster=(1, 1, 1),
    )  # fmt: skip


def pointers(a: int, b: int, sfa: int, sfb: int, c: int) -> list[cute.Pointer]:
    """Typed device pointers."""
    types = (Float4E2M1FN, Float4E2M1FN, Float8E4M3FN, Float8E4M3FN, Float16)
    aligned = (32, 32, 32, 32, 16)
    return [
        make_ptr(dtype, address, cute.AddressSpace.gmem, assumed_align=bytes_)
        for dtype, address, bytes_ in zip(types, (a, b, sfa, sfb, c), aligned, strict=True)
    ]


@functools.cache
def compiled():
    return cute.compile(gemm, *pointers(0, 0, 0, 0, 0), 0, 0, 0, 0)


def custom_kernel(data: input_t) -> output_t:
    a, b, _, _, sfa, sfb, c = data
    m, n, batches = c.shape
    k = 2 * a.shape[1]
    if k % TILE[2] or n % TILE[1]:
        raise ValueError(f"n = {n}, k = {k}: this kernel wants n in 128s and k in 256s")
    compiled()(*pointers(*(x.data_ptr() for x in (a, b, sfa, sfb, c))), m, n, k, batches)
    return c
