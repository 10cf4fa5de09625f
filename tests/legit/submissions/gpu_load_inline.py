#!POPCORN leaderboard vectoradd
"""CUDA compiled while importing, by the compiler of the machine."""

from torch.utils.cpp_extension import load_inline

CUDA = """
__global__ void add_kernel(const float *a, const float *b, float *c, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
at::Tensor add(at::Tensor a, at::Tensor b) {
  auto c = at::empty_like(a);
  long n = a.numel();
  add_kernel<<<(n + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
  return c;
}
"""
extension = load_inline(
    "legit_cuda_add",
    cpp_sources="at::Tensor add(at::Tensor a, at::Tensor b);",
    cuda_sources="#include <ATen/ATen.h>\n" + CUDA,
    functions=["add"],
)


def custom_kernel(data):
    return extension.add(*data)
