#!POPCORN leaderboard matmul
import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import cutlass.utils as utils
import cutlass.utils.hopper_helpers as sm90_utils
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import from_dlpack


class HopperGemm:
    def __init__(self, swish: bool = True):
        self.tile_shape_mnk = (128, 256, 64)
        self.cluster_shape_mn = (2, 1)
        self.atom_layout_mnk = (2, 1, 1)
        self.ab_stage = 4
        self.epi_stage = 2
        self.mma_warp_groups = 2
        self.load_register_requirement = 40
        self.mma_register_requirement = 232
        self.swish = swish

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, max_active_clusters: cutlass.Constexpr):
        tiled_mma = sm90_utils.make_trivial_tiled_mma(
            a.element_type, b.element_type, warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K,
            cutlass.Float32, self.atom_layout_mnk, tiler_mn=(64, self.tile_shape_mnk[1]),
        )
        op = cpasync.CopyBulkTensorTileG2SMulticastOp()
        a_layout = sm90_utils.make_smem_layout_a(utils.LayoutEnum.ROW_MAJOR, self.tile_shape_mnk, a.element_type, self.ab_stage)
        tma_atom_a, tma_a = cpasync.make_tiled_tma_atom(op, a, a_layout, (128, 64), num_multicast=2)
        params = utils.PersistentTileSchedulerParams(c.shape, (*self.cluster_shape_mn, 1))
        grid = utils.StaticPersistentTileScheduler.get_grid_shape(params, max_active_clusters)
        self.kernel(tma_atom_a, tma_a, b, c, tiled_mma, a_layout, params).launch(
            grid=grid, block=[384, 1, 1], cluster=[*self.cluster_shape_mn, 1], min_blocks_per_mp=1
        )

    @cute.kernel
    def kernel(self, tma_atom_a: cute.CopyAtom, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiled_mma: cute.TiledMma, a_layout: cute.ComposedLayout, params: utils.PersistentTileSchedulerParams):
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = utils.SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, self.ab_stage * 2)
        sA = smem.allocate_tensor(cutlass.BFloat16, a_layout.outer, 128, swizzle=a_layout.inner)
        load = pipeline.PipelineTmaAsync.create(
            barrier_storage=barriers, num_stages=self.ab_stage,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 8),
            tx_count=16384, cta_layout_vmnk=cute.make_layout((1, 2, 1, 1)),
        )
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.ab_stage)
        if warp_idx >= 8:
            cute.arch.warpgroup_reg_dealloc(self.load_register_requirement)
            scheduler = utils.StaticPersistentTileScheduler.create(params, cute.arch.block_idx(), cute.arch.grid_dim())
            tile = scheduler.initial_work_tile_info()
            while tile.is_valid_tile:
                for k in cutlass.range(cute.size(mA, mode=[1]), unroll=1):
                    load.producer_acquire(state)
                    cute.copy(tma_atom_a, mA[(None, k)], sA[(None, state.index)], tma_bar_ptr=load.producer_get_barrier(state), mcast_mask=3)
                    state.advance()
                scheduler.advance_to_next_work()
                tile = scheduler.get_current_work()
        else:
            cute.arch.warpgroup_reg_alloc(self.mma_register_requirement)
            accumulators = cute.make_rmem_tensor(tiled_mma.partition_shape_C((128, 256)), cutlass.Float32)
            scheduler = utils.StaticPersistentTileScheduler.create(params, cute.arch.block_idx(), cute.arch.grid_dim())
            tile = scheduler.initial_work_tile_info()
            while tile.is_valid_tile:
                for k in cutlass.range(cute.size(mA, mode=[1]), unroll=1):
                    load.consumer_wait(state)
                    cute.nvgpu.warpgroup.fence()
                    cute.gemm(tiled_mma, accumulators, sA[(None, state.index)], mB[(None, k)], accumulators)
                    cute.nvgpu.warpgroup.commit_group()
                    cute.nvgpu.warpgroup.wait_group(0)
                    load.consumer_release(state)
                    state.advance()
                value = accumulators.load()
                if cutlass.const_expr(self.swish):
                    value = value / (1.0 + cute.exp(-value, fastmath=True))
                cute.autovec_copy(value.to(cutlass.BFloat16), mC[tile.tile_idx])
                scheduler.advance_to_next_work()
                tile = scheduler.get_current_work()


_compiled = None


def custom_kernel(data):
    global _compiled
    a, b, c = data
    args = [from_dlpack(t, assumed_align=16) for t in (a, b, c)]
    if _compiled is None:
        _compiled = cute.compile(HopperGemm(swish=True), *args, 66)
    _compiled(*args)
    return c
