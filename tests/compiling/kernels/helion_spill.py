#!POPCORN leaderboard tile
import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[16, 512], num_warps=1))
def heavy(a: torch.Tensor) -> torch.Tensor:
    m, k = a.size()
    out = torch.empty([m, k], dtype=torch.float32, device=a.device)
    for i, j in hl.tile([m, k]):
        x = a[i, j].to(torch.float32)
        y = torch.exp(x)
        out[i, j] = x * y + torch.sum(y, dim=-1)[:, None] * x
    return out


def custom_kernel(data):
    a, _b, _c, _ = data
    return heavy(a)
