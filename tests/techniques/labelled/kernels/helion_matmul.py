#!POPCORN leaderboard matmul
import helion
import helion.language as hl
import torch


@helion.kernel(
    config=helion.Config(
        block_sizes=[128, 128, 64],
        l2_groupings=[8],
        num_warps=8,
        num_stages=4,
        indexing="tensor_descriptor",
        pid_type="persistent_interleaved",
        range_warp_specializes=[True, None],
    ),
    static_shapes=True,
)
def matmul(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _, n = y.size()
    out = torch.empty([m, n], dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        acc = torch.relu(acc + bias[tile_n])
        out[tile_m, tile_n] = acc.to(torch.bfloat16)
    return out


def custom_kernel(data):
    return matmul(*data)
