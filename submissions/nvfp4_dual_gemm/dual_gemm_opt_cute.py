#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
"""NVFP4 gated dual GEMM in CuTe DSL for Blackwell, persistent: a CTA takes tile after tile, with sums in two buffers.

A class, since the parts of the kernel share their configuration. A warp for each job, as in dual_gemm_cute.py. New:

    scheduler       CTA i takes tiles i, i + grid, i + 2·grid, …, down a column of C first: neighbours share B1 and B2
    tensor memory   two buffers of two sums each: the MMA warp begins a tile while the epilogue reads the last one
    tensor maps     prefetched, before anything waits for what they describe

Tensor memory has 512 columns of 32 bits. Two buffers of two sums 128 wide would take all of it and leave none for
scales, so a tile is 128 × 64: 256 columns of sums, three times 16 of scales. Scales come in atoms of 128 rows; a tile
of 64 columns fetches the whole atom and, where its number is odd, points the MMA two columns further, to the rows of
the atom's second half.

Compiled for sm_100a, not run here. n and k in multiples of 128 and 256 (all cases of the board); m is free: TMA fills
rows beyond it with zeros, and stores are predicated.
"""

import functools

import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as blackwell
import cutlass.utils.blockscaled_layout as blockscaled
import torch
from cutlass import Float4E2M1FN, Float8E4M3FN, Float16, Float32, Int32, pipeline, utils
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import make_ptr
from task import input_t, output_t

BLOCK = 16  # values of k that share a scale
EPILOGUE_WARPS, MMA_WARP, TMA_WARP = 4, 4, 5
THREADS = 32 * 6
TMEM_COLUMNS = 512
ATOM_ROWS = 128  # of scales, which lie in 4 columns of tensor memory, 32 rows in each
ONE_CTA = (1, 1, 1, 1)


def tiles_of(cta: int, ctas: int, tiles: int) -> list[int]:
    """What the scheduler gives a CTA; the kernel's loops do the same."""
    return list(range(cta, tiles, ctas))


class DualGemm:
    """C = silu(A·B1ᵀ) ⊙ (A·B2ᵀ)."""

    def __init__(self, tile: tuple[int, int, int] = (128, 64, 256), stages: int = 5, buffers: int = 2):
        """tile: of C, and the k of a stage; buffers: of both sums."""
        if tile[1] not in (64, 128) or 2 * buffers * tile[1] + 48 > TMEM_COLUMNS:
            raise ValueError(f"{buffers} buffers of two sums {tile[1]} wide leave no room for scales in tensor memory")
        self.tile, self.stages, self.buffers = tile, stages, buffers
        # What the layout of B's scales is made for: whole atoms.
        self.scale_tile = (tile[0], max(tile[1], ATOM_ROWS), tile[2])
        self.share = self.scale_tile[1] // tile[1]  # tiles that share an atom

    def _mma(self, columns: int) -> cute.TiledMma:
        return blackwell.make_blockscaled_trivial_tiled_mma(
            Float4E2M1FN, Float4E2M1FN, OperandMajorMode.K, OperandMajorMode.K, Float8E4M3FN, BLOCK,
            tcgen05.CtaGroup.ONE, (self.tile[0], columns),
        )  # fmt: skip

    @cute.jit
    def __call__(
        self,
        a_ptr: cute.Pointer,
        b1_ptr: cute.Pointer,
        b2_ptr: cute.Pointer,
        sfa_ptr: cute.Pointer,
        sfb1_ptr: cute.Pointer,
        sfb2_ptr: cute.Pointer,
        c_ptr: cute.Pointer,
        m: Int32,
        n: Int32,
        k: Int32,
        batches: Int32,
        ctas: Int32,
    ):
        """A [m, k, batches], B1 and B2 [n, k, batches], k contiguous; scales reordered; C [m, n, batches]."""
        k = cute.assume(k, 256)
        n = cute.assume(n, 128)
        a = cute.make_tensor(a_ptr, cute.make_layout((m, k, batches), stride=(k, 1, m * k)))
        weights = cute.make_layout((n, k, batches), stride=(k, 1, n * k))
        b1, b2 = cute.make_tensor(b1_ptr, weights), cute.make_tensor(b2_ptr, weights)
        c = cute.make_tensor(c_ptr, cute.make_layout((m, n, batches), stride=(n, 1, m * n)))
        sfa = cute.make_tensor(sfa_ptr, blockscaled.tile_atom_to_shape_SF(a.shape, BLOCK))
        scales = blockscaled.tile_atom_to_shape_SF(b1.shape, BLOCK)
        sfb1, sfb2 = cute.make_tensor(sfb1_ptr, scales), cute.make_tensor(sfb2_ptr, scales)

        mma, scale_mma = self._mma(self.tile[1]), self._mma(self.scale_tile[1])
        a_layout = blackwell.make_smem_layout_a(mma, self.tile, Float4E2M1FN, self.stages)
        b_layout = blackwell.make_smem_layout_b(mma, self.tile, Float4E2M1FN, self.stages)
        sfa_layout = blockscaled.make_smem_layout_sfa(mma, self.tile, BLOCK, self.stages)
        sfb_layout = blockscaled.make_smem_layout_sfb(mma, self.tile, BLOCK, self.stages)

        fetch = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
        one_stage = (None, None, None, 0)
        one_a, one_b = cute.slice_(a_layout, one_stage), cute.slice_(b_layout, one_stage)
        one_sfa, one_sfb = cute.slice_(sfa_layout, one_stage), cute.slice_(sfb_layout, one_stage)
        # Scales 16 bits wide: one is a byte, less than the copy engine moves along a row.
        tma_a, a = cute.nvgpu.make_tiled_tma_atom_A(fetch, a, one_a, self.tile, mma, ONE_CTA)
        tma_b1, b1 = cute.nvgpu.make_tiled_tma_atom_B(fetch, b1, one_b, self.tile, mma, ONE_CTA)
        tma_b2, b2 = cute.nvgpu.make_tiled_tma_atom_B(fetch, b2, one_b, self.tile, mma, ONE_CTA)
        tma_sfa, sfa = cute.nvgpu.make_tiled_tma_atom_A(
            fetch, sfa, one_sfa, self.tile, mma, ONE_CTA, internal_type=cutlass.Int16
        )
        tma_sfb1, sfb1 = cute.nvgpu.make_tiled_tma_atom_B(
            fetch, sfb1, one_sfb, self.scale_tile, scale_mma, ONE_CTA, internal_type=cutlass.Int16
        )
        tma_sfb2, sfb2 = cute.nvgpu.make_tiled_tma_atom_B(
            fetch, sfb2, one_sfb, self.scale_tile, scale_mma, ONE_CTA, internal_type=cutlass.Int16
        )
        stage_bytes = (
            cute.size_in_bytes(Float4E2M1FN, one_a)
            + 2 * cute.size_in_bytes(Float4E2M1FN, one_b)
            + cute.size_in_bytes(Float8E4M3FN, one_sfa)
            + 2 * cute.size_in_bytes(Float8E4M3FN, one_sfb)
        )
        down, across = cute.ceil_div(m, self.tile[0]), n // self.tile[1]
        tiles = down * across * batches
        self.kernel(
            mma, scale_mma,
            (tma_a, tma_b1, tma_b2, tma_sfa, tma_sfb1, tma_sfb2), (a, b1, b2, sfa, sfb1, sfb2), c,
            a_layout, b_layout, sfa_layout, sfb_layout, down, across, tiles, stage_bytes,
        ).launch(grid=(cutlass.min(tiles, ctas), 1, 1), block=(THREADS, 1, 1), cluster=(1, 1, 1))  # fmt: skip

    @cute.jit
    def partition(self, atom: cute.CopyAtom, shared: cute.Tensor, tiles: cute.Tensor):
        """Where TMA copies to, by stage, and from, by tile. Scales lie with stride 0 along values that share them."""
        to, source = cpasync.tma_partition(
            atom, 0, cute.make_layout(1), cute.group_modes(shared, 0, 3), cute.group_modes(tiles, 0, 3)
        )
        return cute.filter_zeros(to), cute.filter_zeros(source)

    @cute.jit
    def scales_to_tmem(self, shared_scales: cute.Tensor, tmem_scales: cute.Tensor):
        """The copy of a stage's scales to tensor memory: its atom, all stages' sources, its destination."""
        atom = cute.make_copy_atom(tcgen05.Cp4x32x128bOp(tcgen05.CtaGroup.ONE), Float8E4M3FN)
        to = cute.filter_zeros(tmem_scales)
        copy = tcgen05.make_s2t_copy(atom, to)
        thread = copy.get_slice(0)
        source = tcgen05.get_s2t_smem_desc_tensor(copy, thread.partition_S(cute.filter_zeros(shared_scales)))
        return copy, source, thread.partition_D(to)

    @cute.jit
    def place(self, tile: Int32, down: Int32, across: Int32):
        """Row and column of tiles, and batch, of the tile of this number: down a column of C first."""
        return tile % down, tile // down % across, tile // (down * across)

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        scale_mma: cute.TiledMma,
        atoms: tuple,
        tensors: tuple,
        c: cute.Tensor,
        a_layout: cute.ComposedLayout,
        b_layout: cute.ComposedLayout,
        sfa_layout: cute.Layout,
        sfb_layout: cute.Layout,
        down: Int32,
        across: Int32,
        tiles: Int32,
        stage_bytes: cutlass.Constexpr,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread, _, _ = cute.arch.thread_idx()
        cta, _, _ = cute.arch.block_idx()
        ctas, _, _ = cute.arch.grid_dim()
        tma_a, tma_b1, tma_b2, tma_sfa, tma_sfb1, tma_sfb2 = atoms
        a, b1, b2, sfa, sfb1, sfb2 = tensors
        if warp == TMA_WARP:
            for atom in atoms:
                cpasync.prefetch_descriptor(atom)

        @cute.struct
        class Shared:
            full_and_empty: cute.struct.MemRange[cutlass.Int64, 2 * self.stages]
            sums: cute.struct.MemRange[cutlass.Int64, 2 * self.buffers]
            tmem: Int32

        allocator = utils.SmemAllocator()
        shared = allocator.allocate(Shared)
        s_a = allocator.allocate_tensor(Float4E2M1FN, a_layout.outer, byte_alignment=1024, swizzle=a_layout.inner)
        s_b1 = allocator.allocate_tensor(Float4E2M1FN, b_layout.outer, byte_alignment=1024, swizzle=b_layout.inner)
        s_b2 = allocator.allocate_tensor(Float4E2M1FN, b_layout.outer, byte_alignment=1024, swizzle=b_layout.inner)
        s_sfa = allocator.allocate_tensor(Float8E4M3FN, sfa_layout, byte_alignment=128)
        s_sfb1 = allocator.allocate_tensor(Float8E4M3FN, sfb_layout, byte_alignment=128)
        s_sfb2 = allocator.allocate_tensor(Float8E4M3FN, sfb_layout, byte_alignment=128)
        one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        producer, consumer = pipeline.PipelineTmaUmma.create(
            barrier_storage=shared.full_and_empty.data_ptr(),
            num_stages=self.stages,
            producer_group=one,
            consumer_group=one,
            tx_count=stage_bytes,
        ).make_participants()
        sum_producer, sum_consumer = pipeline.PipelineUmmaAsync.create(
            barrier_storage=shared.sums.data_ptr(),
            num_stages=self.buffers,
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

        # All tiles of everything: (MMA, MMA_M or MMA_N, MMA_K, tile, k tile, batch).
        cta_mma, cta_scale_mma = mma.get_slice(0), scale_mma.get_slice(0)
        row_tiler, column_tiler = (self.tile[0], self.tile[2]), (self.tile[1], self.tile[2])
        scale_tiler = (self.scale_tile[1], self.scale_tile[2])
        every = (None, None, None)
        g_a = cta_mma.partition_A(cute.local_tile(a, row_tiler, every))
        g_b1 = cta_mma.partition_B(cute.local_tile(b1, column_tiler, every))
        g_b2 = cta_mma.partition_B(cute.local_tile(b2, column_tiler, every))
        g_sfa = cta_mma.partition_A(cute.local_tile(sfa, row_tiler, every))
        g_sfb1 = cta_scale_mma.partition_B(cute.local_tile(sfb1, scale_tiler, every))
        g_sfb2 = cta_scale_mma.partition_B(cute.local_tile(sfb2, scale_tiler, every))
        k_tiles = cute.size(g_a, mode=[4])

        sums = mma.make_fragment_C(cute.append(mma.partition_shape_C(self.tile[:2]), self.buffers))
        gates = cute.make_tensor(tmem_ptr, sums.layout)
        columns = tcgen05.find_tmem_tensor_col_offset(gates)
        linears = cute.make_tensor(tmem_ptr + columns, sums.layout)

        if warp == TMA_WARP:
            to_a, from_a = self.partition(tma_a, s_a, g_a)
            to_b1, from_b1 = self.partition(tma_b1, s_b1, g_b1)
            to_b2, from_b2 = self.partition(tma_b2, s_b2, g_b2)
            to_sfa, from_sfa = self.partition(tma_sfa, s_sfa, g_sfa)
            to_sfb1, from_sfb1 = self.partition(tma_sfb1, s_sfb1, g_sfb1)
            to_sfb2, from_sfb2 = self.partition(tma_sfb2, s_sfb2, g_sfb2)
            for tile in cutlass.range(cta, tiles, ctas, unroll=1):
                row, column, batch = self.place(tile, down, across)
                atom = column // self.share
                for i in cutlass.range(k_tiles, unroll=1):
                    slot = producer.acquire_and_advance()
                    bar, stage = slot.barrier, (None, slot.index)
                    cute.copy(tma_a, from_a[None, row, i, batch], to_a[stage], tma_bar_ptr=bar)
                    cute.copy(tma_b1, from_b1[None, column, i, batch], to_b1[stage], tma_bar_ptr=bar)
                    cute.copy(tma_b2, from_b2[None, column, i, batch], to_b2[stage], tma_bar_ptr=bar)
                    cute.copy(tma_sfa, from_sfa[None, row, i, batch], to_sfa[stage], tma_bar_ptr=bar)
                    cute.copy(tma_sfb1, from_sfb1[None, atom, i, batch], to_sfb1[stage], tma_bar_ptr=bar)
                    cute.copy(tma_sfb2, from_sfb2[None, atom, i, batch], to_sfb2[stage], tma_bar_ptr=bar)
            producer.tail()

        if warp == MMA_WARP:
            fragments_a = mma.make_fragment_A(s_a)
            fragments_b1, fragments_b2 = mma.make_fragment_B(s_b1), mma.make_fragment_B(s_b2)
            one_stage = (None, None, None, 0)
            sfa_tmem = blockscaled.make_tmem_layout_sfa(mma, self.tile, BLOCK, cute.slice_(sfa_layout, one_stage))
            sfb_tmem = blockscaled.make_tmem_layout_sfb(mma, self.tile, BLOCK, cute.slice_(sfb_layout, one_stage))
            at_sfa = 2 * columns
            t_sfa = cute.make_tensor(cute.recast_ptr(tmem_ptr + at_sfa, dtype=Float8E4M3FN), sfa_tmem)
            at_sfb1 = at_sfa + tcgen05.find_tmem_tensor_col_offset(t_sfa)
            t_sfb1 = cute.make_tensor(cute.recast_ptr(tmem_ptr + at_sfb1, dtype=Float8E4M3FN), sfb_tmem)
            at_sfb2 = at_sfb1 + tcgen05.find_tmem_tensor_col_offset(t_sfb1)
            t_sfb2 = cute.make_tensor(cute.recast_ptr(tmem_ptr + at_sfb2, dtype=Float8E4M3FN), sfb_tmem)
            copy_sfa, from_sfa, to_sfa = self.scales_to_tmem(s_sfa, t_sfa)
            copy_sfb1, from_sfb1, to_sfb1 = self.scales_to_tmem(s_sfb1, t_sfb1)
            copy_sfb2, from_sfb2, to_sfb2 = self.scales_to_tmem(s_sfb2, t_sfb2)
            for tile in cutlass.range(cta, tiles, ctas, unroll=1):
                _, column, _ = self.place(tile, down, across)
                further = column % self.share * (self.tile[1] // 32)  # to this tile's rows of the atom
                m_sfb1 = cute.make_tensor(cute.recast_ptr(tmem_ptr + at_sfb1 + further, dtype=Float8E4M3FN), sfb_tmem)
                m_sfb2 = cute.make_tensor(cute.recast_ptr(tmem_ptr + at_sfb2 + further, dtype=Float8E4M3FN), sfb_tmem)
                result = sum_producer.acquire_and_advance()
                buffer = (None, None, None, result.index)
                gate, linear = gates[buffer], linears[buffer]
                mma.set(tcgen05.Field.ACCUMULATE, False)
                for _ in cutlass.range(k_tiles, unroll=1):
                    slot = consumer.wait_and_advance()
                    stage = (None, None, None, None, slot.index)
                    cute.copy(copy_sfa, from_sfa[stage], to_sfa)
                    cute.copy(copy_sfb1, from_sfb1[stage], to_sfb1)
                    cute.copy(copy_sfb2, from_sfb2[stage], to_sfb2)
                    for k_block in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                        block = (None, None, k_block, slot.index)
                        mma.set(tcgen05.Field.SFA, t_sfa[None, None, k_block].iterator)
                        mma.set(tcgen05.Field.SFB, m_sfb1[None, None, k_block].iterator)
                        cute.gemm(mma, gate, fragments_a[block], fragments_b1[block], gate)
                        mma.set(tcgen05.Field.SFB, m_sfb2[None, None, k_block].iterator)
                        cute.gemm(mma, linear, fragments_a[block], fragments_b2[block], linear)
                        mma.set(tcgen05.Field.ACCUMULATE, True)
                    slot.release()
                result.commit()
            sum_producer.tail()

        if warp < EPILOGUE_WARPS:
            load = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32, tcgen05.Pack.NONE), Float32)
            part = (self.tile[0], 32)
            gate_parts = cute.flat_divide(gates[(None, None), 0, 0, None], part)
            linear_parts = cute.flat_divide(linears[(None, None), 0, 0, None], part)
            copy = tcgen05.make_tmem_copy(load, gate_parts[None, None, 0, 0, 0])
            mine = copy.get_slice(thread)
            from_gate, from_linear = mine.partition_S(gate_parts), mine.partition_S(linear_parts)
            fragment = mine.partition_D(cute.make_identity_tensor(part)).shape
            loaded_gate = cute.make_rmem_tensor(fragment, Float32)
            loaded_linear = cute.make_rmem_tensor(fragment, Float32)
            rounded = cute.make_rmem_tensor(fragment, Float16)
            for tile in cutlass.range(cta, tiles, ctas, unroll=1):
                row, column, batch = self.place(tile, down, across)
                here = cute.local_tile(c, self.tile[:2], (row, column, batch))
                to = mine.partition_D(cute.flat_divide(here, part))
                result = sum_consumer.wait_and_advance()
                for i in cutlass.range_constexpr(self.tile[1] // part[1]):
                    source = (None, None, None, 0, i, result.index)
                    cute.copy(copy, from_gate[source], loaded_gate)
                    cute.copy(copy, from_linear[source], loaded_linear)
                    cute.arch.fence_view_async_tmem_load()
                    g = loaded_gate.load()
                    silu = g / (1.0 + cute.math.exp(-g, fastmath=True))
                    rounded.store((silu * loaded_linear.load()).to(Float16))
                    if row * self.tile[0] + thread < c.shape[0]:  # a thread has one row
                        cute.autovec_copy(rounded, to[None, None, None, 0, i])
                result.release()

        tmem.relinquish_alloc_permit()
        cute.arch.sync_threads()
        tmem.free(tmem_ptr)


def pointers(*addresses: int) -> list[cute.Pointer]:
    """Typed device pointers: A, B1, B2, their scales, C."""
    types = (Float4E2M1FN,) * 3 + (Float8E4M3FN,) * 3 + (Float16,)
    return [
        make_ptr(dtype, address, cute.AddressSpace.gmem, assumed_align=16 if dtype is Float16 else 32)
        for dtype, address in zip(types, addresses, strict=True)
    ]


@functools.cache
def compiled():
    return cute.compile(DualGemm(), *pointers(*[0] * 7), 0, 0, 0, 0, 0)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def custom_kernel(data: input_t) -> output_t:
    a, b1, b2, _, _, _, sfa, sfb1, sfb2, c = data
    m, n, batches = c.shape
    k = 2 * a.shape[1]
    if k % 256 or n % 128:
        raise ValueError(f"n = {n}, k = {k}: this kernel wants n in 128s and k in 256s")
    addresses = pointers(*(x.data_ptr() for x in (a, b1, b2, sfa, sfb1, sfb2, c)))
    compiled()(*addresses, m, n, k, batches, multiprocessors(c.device))
    return c
