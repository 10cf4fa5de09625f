#!POPCORN leaderboard vectoradd
"""A C++ operator of torch's, compiled while importing; with few headers, which take most of the time."""

import torch
from torch.utils.cpp_extension import load_inline

CODE = """
#include <ATen/ops/add.h>
#include <torch/library.h>
at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
TORCH_LIBRARY(legit_add, library) { library.def("add(Tensor a, Tensor b) -> Tensor", add); }
"""
load_inline("legit_add", cpp_sources=CODE, is_python_module=False, no_implicit_headers=True)


def custom_kernel(data):
    return torch.ops.legit_add.add(*data)
