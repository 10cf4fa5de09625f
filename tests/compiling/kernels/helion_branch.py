#!POPCORN leaderboard tile
import helion
import helion.language as hl
import torch


def scale(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for i in hl.tile(a.size(0)):
        out[i, :] = a[i, :] * 2
    return out


def custom_kernel(data):
    a, _b, _c, _ = data
    warps = 8 if torch.cuda.get_device_capability()[0] >= 10 else 4
    return helion.kernel(scale, config=helion.Config(block_sizes=[16], num_warps=warps))(a)
