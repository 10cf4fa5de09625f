#!POPCORN leaderboard vectoradd
"""C compiled while importing and called by ctypes."""

import ctypes
import pathlib
import subprocess
import tempfile

import torch

CODE = "void add(const float *a, const float *b, float *c, long n) { for (long i = 0; i < n; ++i) c[i] = a[i] + b[i]; }"
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "add.c").write_text(CODE)
subprocess.run(["gcc", "-O3", "-shared", "-fPIC", "-o", folder / "add.so", folder / "add.c"], check=True)
add = ctypes.CDLL(str(folder / "add.so")).add


def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)]
    add(*pointers, ctypes.c_long(len(a)))
    return c
