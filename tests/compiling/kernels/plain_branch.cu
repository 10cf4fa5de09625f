__global__ void __launch_bounds__(256) branch(const float* in, float* out) {
#if __CUDA_ARCH__ >= 1000
  __shared__ float kept[2048];
#else
  __shared__ float kept[1024];
#endif
  kept[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = kept[255 - threadIdx.x];
}
