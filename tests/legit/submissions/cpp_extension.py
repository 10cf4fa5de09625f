#!POPCORN leaderboard vectoradd
"""A C++ extension of torch, compiled while importing."""

from torch.utils.cpp_extension import load_inline

CODE = "at::Tensor add(at::Tensor a, at::Tensor b) { return a + b; }"
extension = load_inline("legit_add", cpp_sources=CODE, functions=["add"])


def custom_kernel(data):
    return extension.add(*data)
