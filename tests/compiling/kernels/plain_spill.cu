__global__ void __launch_bounds__(1024) heavy(const float* in, float* out) {
  float kept[128];
#pragma unroll
  for (int i = 0; i < 128; i++) kept[i] = in[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 128; i++) kept[i] = kept[i] * kept[(i * 7 + 3) % 128] + kept[(i * 11 + 5) % 128];
#pragma unroll
  for (int i = 0; i < 128; i++) out[i * 1024 + threadIdx.x] = kept[i];
}
