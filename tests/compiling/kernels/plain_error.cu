__global__ void broken(float* out) {
  out[threadIdx.x] = undefined_name;
}
