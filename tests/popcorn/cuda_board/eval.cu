// The eval main of a CUDA board for the tests: adds two vectors, by the public popcorn protocol.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "task.h"

static void require(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "CUDA error: %s\n", cudaGetErrorString(status));
    std::exit(110);
}

static bool is_right(int size, int seed, double* elapsed_ns) {
    std::vector<float> a(size), b(size), out(size);
    std::srand(seed);
    for (int i = 0; i < size; ++i) {
        a[i] = std::rand() % 1000;
        b[i] = std::rand() % 1000;
    }
    float *device_a, *device_b, *device_out;
    const size_t bytes = size * sizeof(float);
    require(cudaMalloc(&device_a, bytes));
    require(cudaMalloc(&device_b, bytes));
    require(cudaMalloc(&device_out, bytes));
    require(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
    require(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
    custom_kernel(device_a, device_b, device_out, size);
    require(cudaDeviceSynchronize());
    const auto start = std::chrono::steady_clock::now();
    custom_kernel(device_a, device_b, device_out, size);
    require(cudaDeviceSynchronize());
    *elapsed_ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    require(cudaMemcpy(out.data(), device_out, bytes, cudaMemcpyDeviceToHost));
    cudaFree(device_a);
    cudaFree(device_b);
    cudaFree(device_out);
    for (int i = 0; i < size; ++i)
        if (out[i] != a[i] + b[i]) return false;
    return true;
}

int main(int argc, char** argv) {
    const char* descriptor = std::getenv("POPCORN_FD");
    if (descriptor == nullptr) return 111;
    if (argc < 3) return 2;
    FILE* pipe = fdopen(std::atoi(descriptor), "w");
    const bool testing = std::strcmp(argv[1], "test") == 0;
    const char* kind = testing ? "test" : "benchmark";
    bool all_right = true;
    std::ifstream cases(argv[2]);
    std::string line;
    for (int i = 0; std::getline(cases, line); ++i) {
        int size, seed;
        double elapsed_ns;
        if (std::sscanf(line.c_str(), "size: %d; seed: %d", &size, &seed) != 2) return 113;
        std::fprintf(pipe, "%s.%d.spec: %s\n", kind, i, line.c_str());
        std::fflush(pipe);
        const bool right = is_right(size, seed, &elapsed_ns);
        all_right &= right;
        if (!right)
            std::fprintf(pipe, "%s.%d.status: fail\n%s.%d.error: wrong sum\n", kind, i, kind, i);
        else if (testing)
            std::fprintf(pipe, "test.%d.status: pass\n", i);
        else
            std::fprintf(pipe, "benchmark.%d.runs: 1\nbenchmark.%d.mean: %f\n", i, i, elapsed_ns);
    }
    std::fprintf(pipe, "check: %s\n", all_right ? "pass" : "fail");
    std::fclose(pipe);
    return all_right ? 0 : 112;
}
