"""Declarations that torch's CUDA headers want from libraries that a compiler alone does not bring.

`ATen/cuda/CUDAContext.h` includes the headers of cuBLAS, cuSPARSE and cuSOLVER for the types of their handles. Device
code uses none of it, so that where the toolkit lacks them, these types are enough to go on. They come last on the
include path: real headers win.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

_GUARD = "#pragma once\n"
_HEADERS = {
    "cublas_v2.h": "typedef struct cublasContext* cublasHandle_t;\ntypedef int cublasStatus_t;\n",
    "cublasLt.h": "typedef struct cublasLtContext* cublasLtHandle_t;\n",
    "cusparse.h": "typedef struct cusparseContext* cusparseHandle_t;\ntypedef int cusparseStatus_t;\n",
    "cusolverDn.h": "typedef struct cusolverDnContext* cusolverDnHandle_t;\ntypedef int cusolverStatus_t;\n",
    "cusolver_common.h": "typedef int cusolverStatus_t;\n",
    "cufft.h": "typedef int cufftResult;\n",
    "curand.h": "typedef int curandStatus_t;\n",
    "nvrtc.h": "typedef int nvrtcResult;\n",
    "c10/cuda/impl/cuda_cmake_macros.h": "#define C10_CUDA_BUILD_SHARED_LIBS\n",
}


@functools.cache
def stub_headers() -> Path:
    """A folder with the declarations, for the end of an include path."""
    folder = Path(tempfile.mkdtemp(prefix="stub-headers-"))
    for name, text in _HEADERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_GUARD + text)
    return folder
