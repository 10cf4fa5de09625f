#!POPCORN leaderboard cholesky
#!POPCORN gpu H200
"""CUDA for Hopper (sm_90a), compiled at run time: one launch for any batch and size, fp32-class accuracy.

n ≤ 64: a matrix lives in the registers of half a warp or a warp from the load to the store (`factor_32`, `factor_64`).
n ≤ 128: a matrix is one tile of the scheme below, and one block (`factor_one_tile`).

n > 128: a task is one 128 × 128 tile of L, left-looking,

    C = A_ij − Σ_{k<j} L_ik·L_jkᵀ        wgmma; the sum is the whole loop of a task, C never goes to memory
    L_ij = C·L_jj⁻ᵀ   (i > j)            substitution by blocks of 32, with inverted 32 × 32 diagonal blocks
    L_jj = chol(C)    (i = j)            the same loop, each diagonal block factored by one warp, inverted by another

and one persistent launch works through all tasks of all matrices, in an order in which every task comes after what it
reads (`factor_tiles`). Rows of tiles count their finished halves, diagonal tiles their finished blocks; a producer warp
waits for the counts and fetches what they announce, two warpgroups multiply, another warp writes finished parts out. No
task waits for anything but its own operands, so panels and trailing updates of different columns overlap without being
scheduled to. It can't deadlock: of all unfinished tasks, the first in order has its operands and a block working on it.

Products are fp32 ones made of three fp16 ones. With sᵢ the power of two for which sᵢ·√A_ii lies in (2¹², 2¹⁴], every
|sᵢ·L_ik| ≤ 2¹⁴, since row i of L has the norm √A_ii. So hi = fp16(sᵢ·L_ik) and lo = fp16(sᵢ·L_ik − hi) hold 22 bits of
it, or what lies above 2⁻³⁹ of the row's norm, and

    sᵢ·sⱼ·L_ik·L_jk = hi·hi + hi·lo + lo·hi + O(2⁻²²)

is what 3×TF32 gives, at twice its rate: both formats have 11 significant bits, and equilibration by powers of two,
which is exact, makes fp16's short exponent enough. The tensor core truncates its sums, so the small products go first
and fp32 registers take the sum over every 128 columns.

L's hi and lo parts go through memory in the layout that wgmma reads (K-major, 128-byte swizzle), 64 KiB a tile, so
that a fetch is a plain bulk copy.

A CUDA graph can capture a shape after one call of it outside: the first call loads the kernel and copies the list of
tasks, 8 bytes each. Lists are kept for good, since a graph may read them at any time.

On an H200 335.8 µs by geomean over the board's 15 cases, 7.65 times cuSOLVER, from 2.8 (one matrix of 4096) to 22 (two
of them). Up to 8192 a chain of pivots and announcements, 20 µs a column of tiles, is what takes time; from 16384
on products are 56 to 66 % of the blocks' time and waiting for operands 32 to 27 %.
"""

import functools

import torch
from task import input_t, output_t

TILE = 128
TILE_BYTES = 4 * TILE * 64 * 2  # hi and lo, two halves of 64 columns
TASK_THREADS = 384  # two warpgroups that multiply, one that fetches
TASK_SHARED_BYTES = 15 * 1024 + 3 * TILE_BYTES
ONE_TILE_SHARED_BYTES = 15 * 1024 + 41_472
SMALL = 64
ALIGNED = 16  # bytes: of what a thread reads at once

SMALL_SOURCE = r"""
// One matrix a group of LANES lanes. Lane g holds rows g, g + LANES, ... of up to 32 columns at a time.
typedef unsigned int u32;

constexpr int WIDTH = 32;   // columns factored at a time
constexpr int PITCH = 36;   // of a 32-wide row in shared memory: rows start at different banks, 16-byte aligned
constexpr u32 ALL = 0xffffffffu;

// 1/sqrt(x), the hardware's approximation and one step of Newton's.
__device__ __forceinline__ float reciprocal_root(float x) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  float half_error = fmaf(-x * r, r, 1.0f) * 0.5f;
  return fmaf(r, half_error, r);
}

// Right-looking, two columns at a time: a[s][j] is element (g + s·LANES, j); rows from WIDTH on are only carried along.
// columns[k][row] receives column k of L: every lane needs all of it, which a broadcast from shared memory gives. What
// takes time is the chain from one pair of pivots to the next, so every lane computes the 2 × 2 block d of the next
// pair for itself, from its rows of L, ahead of the rest of the update.
template <int LANES, int SETS, int ROWS, int BUFFERS>
__device__ __forceinline__ void factor(float (&a)[SETS][WIDTH], float (*columns)[ROWS], int g) {
  float d00 = __shfl_sync(ALL, a[0][0], 0, LANES);
  float d10 = __shfl_sync(ALL, a[0][0], 1, LANES), d11 = __shfl_sync(ALL, a[0][1], 1, LANES);
#pragma unroll
  for (int k = 0; k < WIDTH; k += 2) {
    const int next = (k + 2) % WIDTH, set = next / LANES, lane = next % LANES;  // of the next pair's first row
    float e00 = __shfl_sync(ALL, a[set][next], lane, LANES);
    float e10 = __shfl_sync(ALL, a[set][next], lane + 1, LANES);
    float e11 = __shfl_sync(ALL, a[set][next + 1], lane + 1, LANES);
    float r0 = reciprocal_root(d00);
    float l10 = d10 * r0;
    float r1 = reciprocal_root(fmaf(-l10, l10, d11));
#pragma unroll
    for (int s = 0; s < SETS; ++s) {
      if ((s + 1) * LANES <= k) continue;  // all rows of this set are above the diagonal
      a[s][k] *= r0;
      a[s][k + 1] = fmaf(-a[s][k], l10, a[s][k + 1]) * r1;
      columns[k % BUFFERS][g + s * LANES] = a[s][k];
      columns[(k + 1) % BUFFERS][g + s * LANES] = a[s][k + 1];
    }
    if (k + 2 == WIDTH) break;
    float p0 = __shfl_sync(ALL, a[set][k], lane, LANES), p1 = __shfl_sync(ALL, a[set][k + 1], lane, LANES);
    float q0 = __shfl_sync(ALL, a[set][k], lane + 1, LANES), q1 = __shfl_sync(ALL, a[set][k + 1], lane + 1, LANES);
    d00 = fmaf(-p1, p1, fmaf(-p0, p0, e00));
    d10 = fmaf(-q1, p1, fmaf(-q0, p0, e10));
    d11 = fmaf(-q1, q1, fmaf(-q0, q0, e11));
    __syncwarp();
#pragma unroll
    for (int q = (k + 2) / 4; q < WIDTH / 4; ++q) {
      float4 u = *reinterpret_cast<const float4*>(&columns[k % BUFFERS][4 * q]);
      float4 v = *reinterpret_cast<const float4*>(&columns[(k + 1) % BUFFERS][4 * q]);
      float l0[4] = {u.x, u.y, u.z, u.w}, l1[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int j = 4 * q + e;
        if (j < k + 2) continue;
#pragma unroll
        for (int s = 0; s < SETS; ++s)
          if ((s + 1) * LANES > k + 2) a[s][j] = fmaf(-a[s][k + 1], l1[e], fmaf(-a[s][k], l0[e], a[s][j]));
      }
    }
  }
}

// n ≤ 32: two matrices a warp, eight a block of 128 threads.
extern "C" __global__ void __launch_bounds__(128, 4)
    factor_32(const float* __restrict__ a_all, float* __restrict__ l_all, int batch, int n) {
  constexpr int LANES = 16;
  __shared__ __align__(16) float tiles[8][WIDTH][PITCH];
  __shared__ __align__(16) float columns[8][4][WIDTH];  // two pairs, so that one barrier a pair is enough
  int local = threadIdx.x / LANES, g = threadIdx.x % LANES;
  long long first = (long long)blockIdx.x * 8;
  int count = min(8, batch - (int)first);
  const float* source = a_all + first * n * n;
  float* target = l_all + first * n * n;

  if (n == WIDTH) {
    for (int x = threadIdx.x; x < count * 256; x += 128)
      *reinterpret_cast<float4*>(&tiles[x / 256][x / 8 % 32][x % 8 * 4]) = reinterpret_cast<const float4*>(source)[x];
  } else {
    for (int x = threadIdx.x; x < 8 * WIDTH * WIDTH; x += 128) {
      int m = x / 1024, row = x / 32 % 32, col = x % 32;
      bool inside = m < count && row < n && col < n;
      tiles[m][row][col] = inside ? source[(m * n + row) * n + col] : (row == col ? 1.0f : 0.0f);
    }
  }
  __syncthreads();
  float a[2][WIDTH];
#pragma unroll
  for (int s = 0; s < 2; ++s)
#pragma unroll
    for (int q = 0; q < WIDTH / 4; ++q) {
      float4 four = *reinterpret_cast<const float4*>(&tiles[local][g + s * LANES][4 * q]);
      a[s][4 * q] = four.x, a[s][4 * q + 1] = four.y, a[s][4 * q + 2] = four.z, a[s][4 * q + 3] = four.w;
    }
  factor<LANES, 2, WIDTH, 4>(a, columns[local], g);
#pragma unroll
  for (int s = 0; s < 2; ++s)
#pragma unroll
    for (int q = 0; q < WIDTH / 4; ++q) {
      int row = g + s * LANES;
      float4 four;
      four.x = 4 * q <= row ? a[s][4 * q] : 0.0f;
      four.y = 4 * q + 1 <= row ? a[s][4 * q + 1] : 0.0f;
      four.z = 4 * q + 2 <= row ? a[s][4 * q + 2] : 0.0f;
      four.w = 4 * q + 3 <= row ? a[s][4 * q + 3] : 0.0f;
      *reinterpret_cast<float4*>(&tiles[local][row][4 * q]) = four;
    }
  __syncthreads();
  if (n == WIDTH) {
    for (int x = threadIdx.x; x < count * 256; x += 128)
      reinterpret_cast<float4*>(target)[x] = *reinterpret_cast<const float4*>(&tiles[x / 256][x / 8 % 32][x % 8 * 4]);
  } else {
    for (int x = threadIdx.x; x < count * n * n; x += 128) target[x] = tiles[x / (n * n)][x / n % n][x % n];
  }
}

// 32 < n ≤ 64: a matrix a warp, one warp a block. Lane g holds rows g and g + 32, first of the left half, then of the
// right half. `half` holds L's left half by columns, so that the update of the right half reads both its factors there.
extern "C" __global__ void __launch_bounds__(32)
    factor_64(const float* __restrict__ a_all, float* __restrict__ l_all, int batch, int n) {
  constexpr int N = 64, LONG = 68;
  __shared__ __align__(16) float tile[N][LONG];
  __shared__ __align__(16) float half[WIDTH][N];
  int g = threadIdx.x;
  const float* source = a_all + (long long)blockIdx.x * n * n;
  float* target = l_all + (long long)blockIdx.x * n * n;
  if (n == N) {
#pragma unroll 8
    for (int x = g; x < N * N / 4; x += 32)
      *reinterpret_cast<float4*>(&tile[x / 16][x % 16 * 4]) = reinterpret_cast<const float4*>(source)[x];
  } else {
    for (int x = g; x < N * N; x += 32) {
      int row = x / N, col = x % N;
      tile[row][col] = row < n && col < n ? source[row * n + col] : (row == col ? 1.0f : 0.0f);
    }
  }
  __syncwarp();
  float left[2][WIDTH];
#pragma unroll
  for (int s = 0; s < 2; ++s)
#pragma unroll
    for (int q = 0; q < WIDTH / 4; ++q) {
      float4 four = *reinterpret_cast<const float4*>(&tile[g + 32 * s][4 * q]);
      left[s][4 * q] = four.x, left[s][4 * q + 1] = four.y, left[s][4 * q + 2] = four.z, left[s][4 * q + 3] = four.w;
    }
  factor<32, 2, N, WIDTH>(left, half, g);
#pragma unroll
  for (int s = 0; s < 2; ++s)
#pragma unroll
    for (int q = 0; q < WIDTH / 4; ++q) {
      int row = g + 32 * s;
      float4 four;
      four.x = 4 * q <= row ? left[s][4 * q] : 0.0f;
      four.y = 4 * q + 1 <= row ? left[s][4 * q + 1] : 0.0f;
      four.z = 4 * q + 2 <= row ? left[s][4 * q + 2] : 0.0f;
      four.w = 4 * q + 3 <= row ? left[s][4 * q + 3] : 0.0f;
      *reinterpret_cast<float4*>(&tile[row][4 * q]) = four;
    }
  float right[1][WIDTH];
#pragma unroll
  for (int q = 0; q < WIDTH / 4; ++q) {
    float4 four = *reinterpret_cast<const float4*>(&tile[g + 32][32 + 4 * q]);
    right[0][4 * q] = four.x, right[0][4 * q + 1] = four.y, right[0][4 * q + 2] = four.z, right[0][4 * q + 3] = four.w;
  }
  __syncwarp();
#pragma unroll 4
  for (int k = 0; k < WIDTH; ++k) {
    float own = half[k][32 + g];
#pragma unroll
    for (int q = 0; q < WIDTH / 4; ++q) {
      float4 four = *reinterpret_cast<const float4*>(&half[k][32 + 4 * q]);
      right[0][4 * q] = fmaf(-own, four.x, right[0][4 * q]);
      right[0][4 * q + 1] = fmaf(-own, four.y, right[0][4 * q + 1]);
      right[0][4 * q + 2] = fmaf(-own, four.z, right[0][4 * q + 2]);
      right[0][4 * q + 3] = fmaf(-own, four.w, right[0][4 * q + 3]);
    }
  }
  __syncwarp();
  factor<32, 1, N, WIDTH>(right, half, g);
#pragma unroll
  for (int q = 0; q < WIDTH / 4; ++q) {
    float4 four;
    four.x = 4 * q <= g ? right[0][4 * q] : 0.0f;
    four.y = 4 * q + 1 <= g ? right[0][4 * q + 1] : 0.0f;
    four.z = 4 * q + 2 <= g ? right[0][4 * q + 2] : 0.0f;
    four.w = 4 * q + 3 <= g ? right[0][4 * q + 3] : 0.0f;
    *reinterpret_cast<float4*>(&tile[g + 32][32 + 4 * q]) = four;
    *reinterpret_cast<float4*>(&tile[g][32 + 4 * q]) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  __syncwarp();
  if (n == N) {
#pragma unroll 8
    for (int x = g; x < N * N / 4; x += 32)
      reinterpret_cast<float4*>(target)[x] = *reinterpret_cast<const float4*>(&tile[x / 16][x % 16 * 4]);
  } else {
    for (int x = g; x < n * n; x += 32) target[x] = tile[x / n][x % n];
  }
}
"""

TASK_SOURCE = r"""
#ifndef WHOLE
#define WHOLE false  // n is a multiple of T, so that no tile sticks out
#endif

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int T = 128;                   // edge of a tile
constexpr int B = 32;                    // edge of a block inside a tile
constexpr int STAGES = 3;
constexpr int HALF_BYTES = T * 128;      // 128 rows of 64 fp16: one operand of one stage, hi or lo
constexpr int TILE_BYTES = 4 * HALF_BYTES;
constexpr int PITCH = 36;                // floats in a row of a 32 × 32 block in shared memory; 32..35 are spare

// Diagonal tiles are kept as four pieces. Piece b holds rows 32b.. of columns 32b..32b+31, in lines of 32 hi and 32 lo;
// its first 32 lines are the inverse of the diagonal block instead. A factor for each column follows the pieces.
__device__ constexpr int piece_at(int b) { return (T * b - 16 * b * (b - 1)) * 128; }
__device__ constexpr int piece_bytes(int b) { return (T - B * b) * 128; }
constexpr int AT_COLUMN_FACTORS = 320 * 128;

// Shared memory, in bytes from its start.
constexpr int AT_BLOCK = 0;
constexpr int AT_COLUMNS = AT_BLOCK + B * PITCH * 4;
constexpr int AT_ROWS = AT_COLUMNS + B * PITCH * 4;
constexpr int AT_SCALES = AT_ROWS + B * B * 4;
constexpr int AT_BARRIERS = AT_SCALES + 2 * T * 4;
constexpr int AT_CORNER_BARRIERS = AT_BARRIERS + 2 * STAGES * 8;
constexpr int AT_TICKETS = AT_CORNER_BARRIERS + 4 * 8;
constexpr int AT_STAGES = 15 * 1024;
static_assert(AT_TICKETS + 16 <= AT_STAGES, "stages are aligned to 1024 bytes");

constexpr int CONSUMERS = 256;
constexpr int PROMOTE = 2;               // stages of 64 columns that the tensor core sums before fp32 registers do
static_assert(PROMOTE >= 2, "half of it is the other warpgroup's first turn");
constexpr u32 ALL = 0xffffffffu;

extern __shared__ __align__(1024) unsigned char shared[];

// ---- Hopper's instructions -------------------------------------------------------------------------------------

__device__ __forceinline__ u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void barrier_init(u32 at, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count));
}
__device__ __forceinline__ void barrier_arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void barrier_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 at, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(at), "r"(parity) : "memory");
}
__device__ __forceinline__ void fetch(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ __forceinline__ void put(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void put_wait() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}
// Between ordinary accesses and those of the copy engine and the tensor cores. The general form, without a state space,
// would also wait for every store to global memory on its way.
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

__device__ __forceinline__ int load_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(int* p, int v) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
// Named barriers: 1 among the consumers, 2 to 5 from the consumers to the warp that writes finished parts out, 6 to 13
// from the warp that factors a block to the one that inverts it.
__device__ __forceinline__ void announce(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void await(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void consumers_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// An operand in shared memory: K-major rows of 128 bytes, 16-byte units permuted by the row modulo 8.
__device__ __forceinline__ u64 operand(u32 at) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
__device__ __forceinline__ void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
template <int COUNT>
__device__ __forceinline__ void pin(float* d) {  // keeps the compiler from moving accumulators across a fence or a wait
#pragma unroll
  for (int x = 0; x < COUNT; ++x) asm volatile("" : "+f"(d[x])::"memory");
}

#define FOUR(d, x) "+f"(d[x]), "+f"(d[x + 1]), "+f"(d[x + 2]), "+f"(d[x + 3])
#define SIXTEEN(d, x) FOUR(d, x), FOUR(d, x + 4), FOUR(d, x + 8), FOUR(d, x + 12)

// d[64 × 128] (+)= a[64 × 16]·b[128 × 16]ᵀ, a warpgroup.
__device__ __forceinline__ void mma_128(float* d, u64 a, u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48)
      : "l"(a), "l"(b), "r"(add));
}

// d[64 × 32] (+)= SIGN·a[64 × 16]·b[32 × 16]ᵀ with a in registers.
template <int SIGN>
__device__ __forceinline__ void mma_32(float* d, const u32* a, u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, p, %22, 1, 0;\n}"
      : SIXTEEN(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(SIGN));
}

// ---- Numbers ---------------------------------------------------------------------------------------------------

__device__ __forceinline__ float power_of_two(int e) { return __int_as_float((e + 127) << 23); }
__device__ __forceinline__ int exponent(float x) { return ((__float_as_int(x) >> 23) & 255) - 127; }

// log2 of s: the largest power of two with s·sqrt(x) ≤ 2^14.
__device__ __forceinline__ int scale_of(float x) { return 14 - ((exponent(x) + 2) >> 1); }

// x ≈ hi + lo in fp16, two numbers at a time.
__device__ __forceinline__ void split(float x0, float x1, u32& hi, u32& lo) {
  float h0, h1;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(hi) : "f"(x1), "f"(x0));
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
      : "=f"(h0), "=f"(h1)
      : "r"(hi));
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(lo) : "f"(x1 - h1), "f"(x0 - h0));
}

// A 64 × 32 accumulator as the A operand of two products of depth 16: the layouts agree.
__device__ __forceinline__ void split_block(const float* d, u32 (&hi)[2][4], u32 (&lo)[2][4]) {
#pragma unroll
  for (int x = 0; x < 8; ++x) split(d[2 * x], d[2 * x + 1], hi[x / 4][x % 4], lo[x / 4][x % 4]);
}

__device__ __forceinline__ float reciprocal_root(float x) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r * fmaf(-0.5f * x, r * r, 1.5f);
}

// ---- A 32 × 32 diagonal block, two warps -----------------------------------------------------------------------

constexpr int STEP = 4;  // columns after which the inverting warp may go on

// block = L·Lᵀ, right-looking, two columns at a time; lane g holds row g. columns[k] receives column k of L, and 1/L_kk
// behind it. What takes time is the chain from one pair of pivots to the next, so every lane computes the 2 × 2 block d
// of the next pair for itself, from its rows of L, ahead of the rest of the update.
__device__ __forceinline__ void factor_block(const float (*block)[PITCH], float (*columns)[PITCH], int g) {
  float a[B];
#pragma unroll
  for (int q = 0; q < B / 4; ++q) {
    float4 four = *reinterpret_cast<const float4*>(&block[g][4 * q]);
    a[4 * q] = four.x, a[4 * q + 1] = four.y, a[4 * q + 2] = four.z, a[4 * q + 3] = four.w;
  }
  float d00 = __shfl_sync(ALL, a[0], 0), d10 = __shfl_sync(ALL, a[0], 1), d11 = __shfl_sync(ALL, a[1], 1);
#pragma unroll
  for (int k = 0; k < B; k += 2) {
    float e00 = 0, e10 = 0, e11 = 0;
    if (k + 2 < B) {
      e00 = __shfl_sync(ALL, a[(k + 2) % B], k + 2);
      e10 = __shfl_sync(ALL, a[(k + 2) % B], k + 3);
      e11 = __shfl_sync(ALL, a[(k + 3) % B], k + 3);
    }
    float r0 = reciprocal_root(d00);
    float l10 = d10 * r0;
    float r1 = reciprocal_root(fmaf(-l10, l10, d11));
    a[k] *= r0;
    a[k + 1] = fmaf(-a[k], l10, a[k + 1]) * r1;
    columns[k][g] = a[k];
    columns[k + 1][g] = a[k + 1];
    if (g == 0) columns[k][B] = r0, columns[k + 1][B] = r1;
    if ((k + 2) % STEP == 0) announce(6 + k / STEP, 64);
    if (k + 2 == B) break;
    float p0 = __shfl_sync(ALL, a[k], k + 2), p1 = __shfl_sync(ALL, a[k + 1], k + 2);
    float q0 = __shfl_sync(ALL, a[k], k + 3), q1 = __shfl_sync(ALL, a[k + 1], k + 3);
    d00 = fmaf(-p1, p1, fmaf(-p0, p0, e00));
    d10 = fmaf(-q1, p1, fmaf(-q0, p0, e10));
    d11 = fmaf(-q1, q1, fmaf(-q0, q0, e11));
    __syncwarp();
#pragma unroll
    for (int q = (k + 2) / 4; q < B / 4; ++q) {
      float4 u = *reinterpret_cast<const float4*>(&columns[k][4 * q]);
      float4 v = *reinterpret_cast<const float4*>(&columns[k + 1][4 * q]);
      float l0[4] = {u.x, u.y, u.z, u.w}, l1[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (4 * q + e >= k + 2) a[4 * q + e] = fmaf(-a[k + 1], l1[e], fmaf(-a[k], l0[e], a[4 * q + e]));
    }
  }
}

// rows[k] receives row k of L⁻¹, by forward substitution: lane g holds column g of the inverse.
__device__ __forceinline__ void invert_block(const float (*columns)[PITCH], float (*rows)[B], int g) {
  float x[B];
#pragma unroll
  for (int j = 0; j < B; ++j) x[j] = j == g ? 1.0f : 0.0f;
#pragma unroll
  for (int k = 0; k < B; ++k) {
    if (k % STEP == 0) await(6 + k / STEP, 64);
    x[k] *= columns[k][B];
    rows[k][g] = x[k];
#pragma unroll
    for (int q = (k + 1) / 4; q < B / 4; ++q) {
      float4 four = *reinterpret_cast<const float4*>(&columns[k][4 * q]);
      float l[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (4 * q + e > k) x[4 * q + e] = fmaf(-x[k], l[e], x[4 * q + e]);
    }
  }
}

// The inverse in fp16: line c is t·(row c of L⁻¹) with t the power of two that brings its largest element under 2^14,
// and factors[c] = 2^14/t. Eight warps, four rows each.
__device__ __forceinline__ void store_inverse(const float (*rows)[B], unsigned char* piece, float* factors, int warp,
                                              int lane) {
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    int row = 4 * warp + x;
    float v = rows[row][lane];
    u32 largest;
    asm("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(largest) : "r"(__float_as_uint(v) & 0x7fffffffu));
    int e = min(max(exponent(__uint_as_float(largest)), -100), 100);
    u32 hi, lo;
    split(v * power_of_two(13 - e), 0.0f, hi, lo);
    unsigned char* line = piece + row * 128 + (lane & 7) * 2;
    *reinterpret_cast<u16*>(line + (((lane >> 3) ^ (row & 7)) << 4)) = (u16)hi;
    *reinterpret_cast<u16*>(line + (((4 + (lane >> 3)) ^ (row & 7)) << 4)) = (u16)lo;
    if (lane == 0) factors[row] = power_of_two(1 + e);
  }
}

// ---- Tasks -----------------------------------------------------------------------------------------------------

struct Arrays {
  const float* a;
  float* l;
  unsigned char* tiles;  // [matrix][i(i+1)/2 + j][TILE_BYTES]: L's tiles, hi and lo, as operands; pieces, if i = j
  int2* done;            // [matrix][i]: finished half tiles of row i left of the diagonal; pieces of its diagonal tile
  int n, edge;           // edge: tiles in a row
};

struct Task {
  int matrix, i, j;
};

// Stages that a task takes: two for every tile to its left, one for the diagonal tile above it.
__device__ __forceinline__ int stages_of(Task t) { return 2 * t.j + (t.i != t.j); }

__device__ __forceinline__ unsigned char* tile_of(const Arrays& x, int matrix, int i, int j) {
  long long before = (long long)matrix * (x.edge * (x.edge + 1) / 2);
  return x.tiles + (before + i * (i + 1) / 2 + j) * TILE_BYTES;
}
// Stages are used in turn by all tasks of a block; `step` counts them, on both sides alike.
struct Ring {
  u32 base;
  u32 step;
  __device__ u32 stage() const { return step % STAGES; }
  __device__ u32 parity() const { return step / STAGES & 1; }
  __device__ u32 full() const { return base + AT_BARRIERS + stage() * 8; }
  __device__ u32 empty() const { return base + AT_BARRIERS + (STAGES + stage()) * 8; }
  __device__ u32 data() const { return base + AT_STAGES + stage() * TILE_BYTES; }
};

// Waits until a count is at least `least`, and returns it.
__device__ __forceinline__ int wait_for(const int* count, int least) {
  int now;
  for (u32 polls = 0; (now = load_acquire(count)) < least; ++polls)
    if (polls > 1u << 24) __trap();  // tens of seconds: a lost block, not a slow one
  return now;
}

// One thread. Fetches L_ik and L_jk for all k < j, by halves, as they are finished, then the pieces of L_jj.
__device__ void produce(const Arrays& x, Task t, Ring& ring, u32& corners) {
  const int2* row_i = x.done + t.matrix * x.edge + t.i;
  const int2* row_j = x.done + t.matrix * x.edge + t.j;
  bool diagonal = t.i == t.j;
  int ready = 0;
  for (int half = 0; half < 2 * t.j; ++half, ++ring.step) {
    if (half >= ready) {
      ready = wait_for(&row_i->x, half + 1);
      if (!diagonal) ready = min(ready, wait_for(&row_j->x, half + 1));
      fence_global();
    }
    int at = (half & 1) * 2 * HALF_BYTES;
    barrier_wait(ring.empty(), ring.parity() ^ 1);
    barrier_expect(ring.full(), (diagonal ? 2 : 4) * HALF_BYTES);
    fetch(ring.data(), tile_of(x, t.matrix, t.i, half / 2) + at, 2 * HALF_BYTES, ring.full());
    if (!diagonal)
      fetch(ring.data() + 2 * HALF_BYTES, tile_of(x, t.matrix, t.j, half / 2) + at, 2 * HALF_BYTES, ring.full());
  }
  if (diagonal) return;
  const unsigned char* corner = tile_of(x, t.matrix, t.j, t.j);
  barrier_wait(ring.empty(), ring.parity() ^ 1);
  barrier_arrive(ring.full());
  ready = 0;
  for (int b = 0; b < T / B; ++b) {
    u32 full = ring.base + AT_CORNER_BARRIERS + 8 * b;
    int factors = AT_COLUMN_FACTORS + b * B * 4;
    if (b >= ready) {
      ready = wait_for(&row_j->y, b + 1);
      fence_global();
    }
    barrier_expect(full, piece_bytes(b) + B * 4);
    fetch(ring.data() + piece_at(b), corner + piece_at(b), piece_bytes(b), full);
    fetch(ring.data() + factors, corner + factors, B * 4, full);
  }
  ++ring.step;
  ++corners;
}

// Where a thread's accumulators are: rows `row` and `row + 8` of the tile; columns 8q + `col`, 8q + `col` + 1.
struct Place {
  int warp, lane, group, row, col, block;
};

__device__ __forceinline__ Place place_of(int thread) {
  Place p;
  p.warp = thread / 32, p.lane = thread % 32, p.group = thread / 128;
  p.row = 16 * p.warp + p.lane / 4, p.col = p.lane % 4 * 2;
  p.block = p.warp / 2;
  return p;
}

// log2 of the power of two that row `at` of the matrix is scaled by.
__device__ __forceinline__ int row_scale(const Arrays& x, Task t, int at) {
  const float* a = x.a + (long long)t.matrix * x.n * x.n;
  return scale_of(at < x.n ? __ldg(a + (long long)at * (x.n + 1)) : 1.0f);
}

// c = A_ij, with an identity outside the matrix.
__device__ __forceinline__ void load_tile(const Arrays& x, Task t, const Place& p, float (&c)[64]) {
  const float* corner = x.a + (long long)t.matrix * x.n * x.n + (long long)(t.i * T + p.row) * x.n + t.j * T + p.col;
  if constexpr (WHOLE) {
#pragma unroll
    for (int e = 0; e < 32; ++e) {
      float2 v = __ldcs(reinterpret_cast<const float2*>(corner + (e & 1) * 8 * x.n + e / 2 * 8));
      c[2 * e] = v.x, c[2 * e + 1] = v.y;
    }
  } else {
#pragma unroll
    for (int e = 0; e < 64; ++e) {
      int i = t.i * T + p.row + (e & 2) * 4, j = t.j * T + e / 4 * 8 + p.col + (e & 1);
      c[e] = i < x.n && j < x.n ? corner[(e & 2) * 4 * x.n + e / 4 * 8 + (e & 1)] : (i == j ? 1.0f : 0.0f);
    }
  }
}

// c = sᵢ·c·sⱼ
__device__ __forceinline__ void scale_tile(const Place& p, const int* scales, float (&c)[64]) {
  float upper = power_of_two(scales[p.row]), lower = power_of_two(scales[p.row + 8]);
#pragma unroll
  for (int q = 0; q < 16; ++q) {
    int2 e = *reinterpret_cast<const int2*>(scales + T + 8 * q + p.col);
    float s0 = power_of_two(e.x), s1 = power_of_two(e.y);
    c[4 * q] = c[4 * q] * upper * s0, c[4 * q + 1] = c[4 * q + 1] * upper * s1;
    c[4 * q + 2] = c[4 * q + 2] * lower * s0, c[4 * q + 3] = c[4 * q + 3] * lower * s1;
  }
}

// c −= Σ_k L_ik·L_jkᵀ in scaled units; 3 products for each 16 columns.
__device__ __forceinline__ void update(Task t, const Place& p, Ring& ring, float (&c)[64]) {
  float sum[64];
  u32 right = t.i == t.j ? 0 : 2 * HALF_BYTES;
  int stages = 2 * t.j;
  // The warpgroups do this at different times, so that one of them keeps the tensor cores busy.
  for (int start = 0, stop; start < stages; start = stop) {
    stop = min(start == 0 && p.group == 1 ? PROMOTE / 2 : start + PROMOTE, stages);
    u32 last_empty = 0;
    for (int x = start; x < stop; ++x, ++ring.step) {
      barrier_wait(ring.full(), ring.parity());
      u32 a = ring.data() + p.group * 64 * 128, b = ring.data() + right;
      pin<64>(sum);
      mma_fence();
      // The small products first: while the sum is small, little is lost where the tensor core truncates it.
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        mma_128(sum, operand(a + HALF_BYTES + 32 * k), operand(b + 32 * k), x > start || k > 0);
        mma_128(sum, operand(a + 32 * k), operand(b + HALF_BYTES + 32 * k), 1);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) mma_128(sum, operand(a + 32 * k), operand(b + 32 * k), 1);
      mma_commit();
      if (x > start) {
        mma_wait<1>();
        if (p.lane == 0) barrier_arrive(last_empty);
      }
      last_empty = ring.empty();
    }
    mma_wait<0>();
    pin<64>(sum);
    if (p.lane == 0) barrier_arrive(last_empty);
#pragma unroll
    for (int x = 0; x < 64; ++x) c[x] -= sum[x];
  }
}

// hi and lo of a 64 × 32 block into columns 32b.. of an operand tile in shared memory.
__device__ __forceinline__ void store_operand(u32 tile, const Place& p, int b, const u32 (&hi)[2][4],
                                              const u32 (&lo)[2][4]) {
  u32 half = tile + (b >> 1) * 2 * HALF_BYTES;
#pragma unroll
  for (int q = 0; q < 4; ++q)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      int row = p.row + 8 * below;
      u32 at = half + row * 128 + ((((b & 1) * 4 + q) ^ (row & 7)) << 4) + p.col * 2;
      int x = 2 * (q & 1) + below;
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(hi[q >> 1][x]) : "memory");
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + HALF_BYTES), "r"(lo[q >> 1][x]) : "memory");
    }
}

// hi and lo of the rows below diagonal block b into its piece.
__device__ __forceinline__ void store_piece(u32 piece, const Place& p, int b, const u32 (&hi)[2][4],
                                            const u32 (&lo)[2][4]) {
#pragma unroll
  for (int q = 0; q < 4; ++q)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      int row = p.row + 8 * below - B * b;
      int x = 2 * (q & 1) + below;
      u32 line = piece + row * 128 + p.col * 2;
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(line + ((q ^ (row & 7)) << 4)), "r"(hi[q >> 1][x]) : "memory");
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(line + (((4 + q) ^ (row & 7)) << 4)), "r"(lo[q >> 1][x]) : "memory");
    }
}

// Columns 32b.. of L_ij to memory in fp32, unscaled.
__device__ __forceinline__ void store_block(const Arrays& x, Task t, const Place& p, int b, const int* scales,
                                            const float* l) {
  int i = t.i * T + p.row, j = t.j * T + B * b + p.col;
  float* corner = x.l + (long long)t.matrix * x.n * x.n + (long long)i * x.n + j;
  float s[2] = {power_of_two(-scales[p.row]), power_of_two(-scales[p.row + 8])};
  if constexpr (WHOLE) {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      *reinterpret_cast<float2*>(corner + (e & 1) * 8 * x.n + e / 2 * 8) =
          make_float2(l[2 * e] * s[e & 1], l[2 * e + 1] * s[e & 1]);
  } else {
#pragma unroll
    for (int e = 0; e < 16; ++e) {
      int down = (e & 2) * 4, right = e / 4 * 8 + (e & 1);
      if (i + down < x.n && j + right < x.n) corner[down * x.n + right] = l[e] * s[e >> 1 & 1];
    }
  }
}

// C_b' −= L_b·L_b'bᵀ for the COUNT blocks after the one in work. `below`: L_b'b of the first of them. `meanwhile` runs
// beside the tensor cores.
template <int COUNT, typename Meanwhile>
__device__ __forceinline__ void update_blocks(float (&c)[64], const u32 (&hi)[2][4], const u32 (&lo)[2][4], u32 below,
                                              Meanwhile meanwhile) {
  pin<64>(c);
  mma_fence();
#pragma unroll
  for (int next = 1; next <= COUNT; ++next, below += B * 128)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      mma_32<-1>(c + 16 * next, lo[k], operand(below + 32 * k), 1);
      mma_32<-1>(c + 16 * next, hi[k], operand(below + 64 + 32 * k), 1);
      mma_32<-1>(c + 16 * next, hi[k], operand(below + 32 * k), 1);
    }
  mma_commit();
  meanwhile();
  mma_wait<0>();
  pin<64>(c);
}

// l = C_b·L_bb⁻ᵀ: C_b as hi and lo, scaled by 2^-14, times the inverse's lines, times their factors.
__device__ __forceinline__ void times_inverse(float (&l)[16], const u32 (&hi)[2][4], const u32 (&lo)[2][4], u32 inverse,
                                              const float* factors, int col) {
  pin<16>(l);
  mma_fence();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    mma_32<1>(l, lo[k], operand(inverse + 32 * k), k > 0);
    mma_32<1>(l, hi[k], operand(inverse + 64 + 32 * k), 1);
    mma_32<1>(l, hi[k], operand(inverse + 32 * k), 1);
  }
  mma_commit();
  float2 u[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) u[q] = *reinterpret_cast<const float2*>(factors + 8 * q + col);
  mma_wait<0>();
  pin<16>(l);
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    l[4 * q] *= u[q].x, l[4 * q + 1] *= u[q].y;
    l[4 * q + 2] *= u[q].x, l[4 * q + 3] *= u[q].y;
  }
}

// Block b of a diagonal tile: factored and inverted. c: the block's columns, in all rows.
__device__ __forceinline__ void factor_diagonal(const Place& p, int b, const float (&c)[64], unsigned char* corner) {
  float(*block)[PITCH] = reinterpret_cast<float(*)[PITCH]>(shared + AT_BLOCK);
  float(*columns)[PITCH] = reinterpret_cast<float(*)[PITCH]>(shared + AT_COLUMNS);
  float(*rows)[B] = reinterpret_cast<float(*)[B]>(shared + AT_ROWS);
  if (p.block == b) {
    int row = p.row % B;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      *reinterpret_cast<float2*>(&block[row][8 * q + p.col]) = make_float2(c[4 * q], c[4 * q + 1]);
      *reinterpret_cast<float2*>(&block[row + 8][8 * q + p.col]) = make_float2(c[4 * q + 2], c[4 * q + 3]);
    }
    await(14, 64);
    if (p.warp == 2 * b)
      factor_block(block, columns, p.lane);
    else
      invert_block(columns, rows, p.lane);
  }
  consumers_sync();
  float* factors = reinterpret_cast<float*>(corner + AT_COLUMN_FACTORS) + B * b;
  store_inverse(rows, corner + piece_at(b), factors, p.warp, p.lane);
  fence_shared();
  consumers_sync();
}

// Columns 32b.. of L_jj in rows that are not below diagonal block b.
__device__ __forceinline__ void take_diagonal(float (&l)[16], const Place& p, int b) {
  const float(*columns)[PITCH] = reinterpret_cast<const float(*)[PITCH]>(shared + AT_COLUMNS);
#pragma unroll
  for (int e = 0; e < 16; ++e) {
    int row = p.row % B + (e & 2) * 4, col = e / 4 * 8 + p.col + (e & 1);
    l[e] = p.block == b && col <= row ? columns[col][row] : 0.0f;
  }
}

// Forward substitution by blocks of 32 columns, or, on the diagonal, the factorisation: for b = 0..3
//     L_b = C_b·L_bb⁻ᵀ,   C_b' −= L_b·L_b'bᵀ  for b' > b,
// where L_b'b are rows of the diagonal tile, whose pieces are at `corner` in shared memory: fetched, or, on the
// diagonal, being made. Finished parts of a SHARED_TILE are announced to the warp that writes them out. The block in
// work is always c[0..15]: the others move down, so that the loop is one piece of code.
template <bool SHARED_TILE>
__device__ __forceinline__ void solve(const Arrays& x, Task t, const Place& p, u32 base, u32 corner, u32 own,
                                      u32 parity, const int* scales, float (&c)[64]) {
  bool diagonal = t.i == t.j;
  unsigned char* pieces = shared + (corner - base);
#pragma unroll 1
  for (int b = 0; b < T / B; ++b) {
    u32 piece = corner + piece_at(b);
    if (diagonal)
      factor_diagonal(p, b, c, pieces);
    else
      barrier_wait(base + AT_CORNER_BARRIERS + 8 * b, parity);
    bool last = diagonal && b + 1 == T / B;  // nothing is below it
    if (SHARED_TILE && last) announce(2 + b, CONSUMERS + 32);
    float l[16];
    u32 hi[2][4], lo[2][4];
#pragma unroll
    for (int e = 0; e < 16; ++e) l[e] = c[e] * power_of_two(-14);
    split_block(l, hi, lo);
    times_inverse(l, hi, lo, piece, reinterpret_cast<const float*>(pieces + AT_COLUMN_FACTORS) + B * b, p.col);
    if (diagonal && p.block <= b) take_diagonal(l, p, b);
    split_block(l, hi, lo);
    if (!diagonal)
      store_operand(own, p, b, hi, lo);
    else if (p.block > b)
      store_piece(piece, p, b, hi, lo);
    fence_shared();
    if (SHARED_TILE && !last) announce(2 + b, CONSUMERS + 32);
    if (diagonal) consumers_sync();
    auto store = [&] { store_block(x, t, p, b, scales, l); };
    if (b == 0) update_blocks<3>(c, hi, lo, piece + B * 128, store);
    if (b == 1) update_blocks<2>(c, hi, lo, piece + B * 128, store);
    if (b == 2) update_blocks<1>(c, hi, lo, piece + B * 128, store);
    if (b == 3) store();
#pragma unroll
    for (int e = 0; e < 48; ++e) c[e] = c[e + 16];
  }
}

// One thread: part b of the finished tile to memory, then the count that announces it. A thread of its own, because a
// release waits for all earlier stores of its thread, and the consumers' stores of L in fp32 take their time.
__device__ __forceinline__ void publish(const Arrays& x, Task t, int b, u32 own) {
  unsigned char* tile = tile_of(x, t.matrix, t.i, t.j);
  int2* row = x.done + t.matrix * x.edge + t.i;
  if (t.j + 1 == x.edge) return;  // nothing reads the last tile
  if (t.i == t.j) {
    int factors = AT_COLUMN_FACTORS + b * B * 4;
    put(tile + piece_at(b), own + piece_at(b), piece_bytes(b));
    put(tile + factors, own + factors, B * 4);
  } else {
    if (b % 2 == 0) return;
    put(tile + b / 2 * 2 * HALF_BYTES, own + b / 2 * 2 * HALF_BYTES, 2 * HALF_BYTES);
  }
  put_wait();
  fence_global();
  store_release(t.i == t.j ? &row->y : &row->x, t.i == t.j ? b + 1 : 2 * t.j + 1 + b / 2);
}

// Zeros above the diagonal: tile (j, i), the mirror image of the task's own.
__device__ __forceinline__ void clear_mirror(const Arrays& x, Task t, int thread) {
  float* out = x.l + (long long)t.matrix * x.n * x.n;
  if constexpr (WHOLE) {
    float4* corner = reinterpret_cast<float4*>(out + (long long)t.j * T * x.n + t.i * T);
    for (int e = thread; e < T * T / 4; e += CONSUMERS)
      __stcs(corner + (long long)(e / 32) * (x.n / 4) + e % 32, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
  } else {
    for (int e = thread; e < T * T; e += CONSUMERS) {
      int i = t.j * T + e / T, j = t.i * T + e % T;
      if (i < x.n && j < x.n) out[(long long)i * x.n + j] = 0.0f;
    }
  }
}

__device__ void consume(const Arrays& x, Task t, Ring& ring, u32& corners) {
  int thread = threadIdx.x;
  Place p = place_of(thread);
  int* scales = reinterpret_cast<int*>(shared + AT_SCALES);  // log2 of sᵢ of the tile's rows, then of sⱼ of its columns
  float c[64];
  load_tile(x, t, p, c);
  scales[thread] = row_scale(x, t, (thread < T ? t.i : t.j) * T + thread % T);
  consumers_sync();
  scale_tile(p, scales, c);
  update(t, p, ring, c);
  consumers_sync();  // both warpgroups are through with the stages
  bool diagonal = t.i == t.j;
  u32 corner = ring.data(), corner_empty = ring.empty();
  if (!diagonal) ++ring.step;
  u32 own = ring.data();  // the next stage: its last contents are used up, and nothing is fetched before the task ends
  solve<true>(x, t, p, ring.base, diagonal ? own : corner, own, corners & 1, scales, c);
  if (diagonal) return;
  ++corners;
  if (p.lane == 0) barrier_arrive(corner_empty);
  clear_mirror(x, t, thread);
}

// n ≤ 128: a matrix is one diagonal tile. Nothing is fetched, so two blocks fit on a multiprocessor.
extern "C" __global__ void __launch_bounds__(CONSUMERS, 2) factor_one_tile(const float* a, float* l, int n) {
  Arrays x = {a, l, nullptr, nullptr, n, 1};
  Task t = {(int)blockIdx.x, 0, 0};
  Place p = place_of(threadIdx.x);
  int* scales = reinterpret_cast<int*>(shared + AT_SCALES);
  float c[64];
  load_tile(x, t, p, c);
  scales[threadIdx.x] = row_scale(x, t, threadIdx.x % T);
  consumers_sync();
  scale_tile(p, scales, c);
  u32 base = address(shared), corner = base + AT_STAGES;
  solve<false>(x, t, p, base, corner, corner, 0, scales, c);
}

// One warp. The task that the block does next, drawn when all operands of the last one are on their way: A's tile comes
// into the cache meanwhile. Drawn any earlier, tasks that others wait for would lie idle behind a long one.
__device__ __forceinline__ void draw(const Arrays& x, const int2* tasks, int count, int* ticket, int round, int lane) {
  int number = lane == 0 ? atomicAdd(ticket, 1) : 0;
  number = __shfl_sync(ALL, number, 0);
  int2 packed = number < count ? tasks[number] : make_int2(-1, 0);
  if (lane == 0) reinterpret_cast<int2*>(shared + AT_TICKETS)[round & 1] = packed;
  if (!WHOLE || packed.x < 0 || round == 0) return;
  const float* corner = x.a + (long long)packed.x * x.n * x.n + (long long)(packed.y >> 16) * T * x.n +
                        (packed.y & 0xffff) * T;
  for (int row = lane; row < T; row += 32)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(corner + (long long)row * x.n), "n"(T * 4)
                 : "memory");
}

__device__ __forceinline__ bool next_task(int round, Task& t) {
  __syncthreads();  // the last task's shared memory is free again, and the ticket is there
  int2 packed = reinterpret_cast<int2*>(shared + AT_TICKETS)[round & 1];
  t = {packed.x, packed.y >> 16, packed.y & 0xffff};
  return packed.x >= 0;
}

extern "C" __global__ void __launch_bounds__(384, 1)
    factor_tiles(const float* a, float* l, unsigned char* tiles, int2* done, int* ticket, const int2* tasks,
                 int task_count, int n, int edge) {
  Arrays x = {a, l, tiles, done, n, edge};
  Ring ring = {address(shared), 0};
  u32 corners = 0;  // diagonal tiles fetched
  int warp = threadIdx.x / 32 - CONSUMERS / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == CONSUMERS) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(ring.base + AT_BARRIERS + s * 8, 1);
      barrier_init(ring.base + AT_BARRIERS + (STAGES + s) * 8, CONSUMERS / 32);
    }
    for (int b = 0; b < T / B; ++b) barrier_init(ring.base + AT_CORNER_BARRIERS + b * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 0) draw(x, tasks, task_count, ticket, 0, lane);
  Task t;
  if (warp >= 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    for (int round = 0; next_task(round, t); ++round) {
      if (warp == 0) {
        if (lane == 0) produce(x, t, ring, corners);
        __syncwarp();
        draw(x, tasks, task_count, ticket, round + 1, lane);
      }
      if (warp == 1) {
        ring.step += stages_of(t);
        for (int b = 0; b < T / B; ++b) {
          await(2 + b, CONSUMERS + 32);
          if (lane == 0) publish(x, t, b, ring.data());
          __syncwarp();
        }
      }
      __syncwarp();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    for (int round = 0; next_task(round, t); ++round) consume(x, t, ring, corners);
  }
}
"""


def kernel(source: str, name: str, shared_bytes: int):
    """The kernel `name` of `source`, compiled, and loaded on the current device, the only one that can launch it."""
    compiled = torch.cuda._compile_kernel(source, name, compute_capability="90a")
    compiled.set_shared_memory_config(shared_bytes)
    return compiled


@functools.cache
def small_kernel(name: str, device: int):
    """device: the current one."""
    return kernel(SMALL_SOURCE, name, 0)


@functools.cache
def tile_kernel(name: str, whole: bool, shared_bytes: int, device: int):
    """whole: no tile reaches beyond its matrix. device: the current one."""
    return kernel(f"#define WHOLE {'true' if whole else 'false'}\n{TASK_SOURCE}", name, shared_bytes)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def tile_order(edge: int) -> list[tuple[int, int]]:
    """The tiles (i, j) of one matrix of edge × edge tiles, each after all that it reads.

    Columns are taken in strips of `width`, a strip row by row, so that the blocks at work read few rows of tiles, many
    times each, from the cache. The triangle on top of a strip is a chain of small steps; it comes early, in the middle
    of the strip before, so that nothing waits for it.
    """
    width = 1 if edge <= 32 else 4 if edge <= 64 else 8
    strips = [range(start, min(start + width, edge)) for start in range(0, edge, width)]

    def triangle(strip: range) -> list[tuple[int, int]]:
        return [(i, j) for i in strip for j in strip if j <= i]

    order = triangle(strips[0])
    for strip, following in zip(strips, [*strips[1:], range(0)], strict=True):
        rest = [(i, j) for i in range(strip.stop, edge) for j in strip]
        early = width * len(following) + 2 * (len(rest) - width * len(following)) // 3
        order += rest[:early] + triangle(following) + rest[early:]
    return order


@functools.cache
def task_list(batch: int, n: int, device: torch.device) -> torch.Tensor:
    """[tasks, 2] int32: the matrix, and i·2¹⁶ + j. Matrices advance side by side, about as many as there are blocks."""
    order = torch.tensor([i << 16 | j for i, j in tile_order(-(-n // TILE))], dtype=torch.int32)
    groups = -(-batch // multiprocessors(device))
    tasks = []
    for matrices in torch.arange(batch, dtype=torch.int32).chunk(groups):
        tasks.append(torch.stack((matrices.repeat(len(order)), order.repeat_interleave(len(matrices))), dim=1))
    return torch.cat(tasks).to(device)


def factor_one_tile(data: torch.Tensor, out: torch.Tensor) -> None:
    batch, n, _ = data.shape
    tile_kernel("factor_one_tile", n % TILE == 0, ONE_TILE_SHARED_BYTES, data.get_device())(
        grid=(batch, 1, 1), block=(256, 1, 1), args=[data, out, n], shared_mem=ONE_TILE_SHARED_BYTES
    )


def factor_tiles(data: torch.Tensor, out: torch.Tensor) -> None:
    batch, n, _ = data.shape
    edge = -(-n // TILE)
    tasks = task_list(batch, n, data.device)
    tiles = torch.empty(batch * (edge * (edge + 1) // 2) * TILE_BYTES, dtype=torch.uint8, device=data.device)
    progress = torch.zeros(2 * batch * edge + 2, dtype=torch.int32, device=data.device)
    tile_kernel("factor_tiles", n % TILE == 0, TASK_SHARED_BYTES, data.get_device())(
        grid=(min(multiprocessors(data.device), len(tasks)), 1, 1),
        block=(TASK_THREADS, 1, 1),
        args=[data, out, tiles, progress[2:], progress, tasks, len(tasks), n, edge],
        shared_mem=TASK_SHARED_BYTES,
    )


def factor_small(data: torch.Tensor, out: torch.Tensor) -> None:
    batch, n, _ = data.shape
    name, blocks, threads = ("factor_32", -(-batch // 8), 128) if n <= 32 else ("factor_64", batch, 32)
    launch = small_kernel(name, data.get_device())
    launch(grid=(blocks, 1, 1), block=(threads, 1, 1), args=[data, out, batch, n])


def custom_kernel(data: input_t) -> output_t:
    """data: [batch, n, n] float32, symmetric positive definite. Returns L: [batch, n, n] float32."""
    if not data.is_contiguous():
        data = data.contiguous()
    if data.data_ptr() % ALIGNED:
        data = data.clone()
    out = torch.empty_like(data)
    if not data.numel():
        return out
    n = data.shape[-1]
    factor = factor_small if n <= SMALL else factor_one_tile if n <= TILE else factor_tiles
    if data.get_device() == torch.cuda.current_device():
        factor(data, out)
    else:
        with torch.cuda.device(data.device):
            factor(data, out)
    return out
