#!POPCORN leaderboard tile
import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[64]))
def broken(a: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for i in hl.tile(a.size(0)):
        out[i, :] = undefined_name[i, :]  # noqa: F821
    return out


def custom_kernel(data):
    a, _b, _c, _ = data
    return broken(a)
