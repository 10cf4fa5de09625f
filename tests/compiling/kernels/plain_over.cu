__global__ void greedy(const float* in, float* out) {
  extern __shared__ float kept[];
  kept[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = kept[255 - threadIdx.x];
}

void run(const float* in, float* out) { greedy<<<1, 2048, 240 * 1024>>>(in, out); }
