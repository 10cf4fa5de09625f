#!POPCORN leaderboard nvfp4_group_gemm
#!POPCORN gpu H200
"""NVFP4 group GEMM on Hopper in CUDA, compiled at run time: one launch for all groups, the ragged ones included.

C is computed transposed: B's rows, the weights, are wgmma's A operand, which may come from registers, and A's rows,
the tokens, its B operand, which must lie in shared memory.

    consumers   two warpgroups; a thread copies the bytes of its own rows of B to shared memory, asynchronously and
                ahead of time, and decodes them to fp16 in the registers in which wgmma expects them: no barrier, no
                shuffle, and decoded weights never go through memory
    producers   a warpgroup; a thread decodes the row of one token to fp16 in shared memory, in wgmma's swizzle

Both put the values of k in an order of their own, the same one, which no sum notices: a thread of wgmma's fragment
holds four values in 16 of k, so 16 bytes of a row, two blocks of the format, are one thread's work for two times 64
values of k. Even and odd codes of four bytes become fp16 with a shift or two, two masks, and a mask or a byte permute
for two values, and a product with the scale. As the bits stand, a code is 2^-14 of its value; scales come times 2^7,
the rest is made good at the end. e2m1 times e4m3 has at most six significant bits and is a multiple of 2^-10, so
decoded operands are exact for any codes and scales, and fp32 sums are the only rounding before the last.

The grid is the tiles of all groups, one after the other, those with the longest k first; a block subtracts the tiles of
one group after another from its number until it knows its own. Pointers and sizes are kernel arguments, so nothing has
to be copied to the device, and the kernel is compiled once for a number of groups, not for their sizes.

Where tiles don't fill the last wave, blocks share them. Up to four are a cluster, each with a part of a tile's k, and
add up their fp32 sums through each other's shared memory. Clusters of four leave multiprocessors idle.

Stream-K is the other way: the chunks of all tiles in a row are dealt out evenly to as many blocks as can run at once. A
block may begin and end in the midst of tiles; those that share one leave fp32 sums in global memory, wait for one
another, and add up a part of the tile each, in a fixed order, so results don't vary. The counters they wait for go back
to 0 by themselves, so a call needs no second launch, and each stream has its own. All blocks must run at once, so
nothing that waits for them may keep multiprocessors from them.

`plan` picks the tile and the way by a fit to measurements. Stream-K wins where tiles or clusters would leave
multiprocessors idle for long; where they fill the card, its sums go a longer way.

The plain scales lie on the CPU; the reordered ones, which are on the device, are the better ones here anyway.
"""

import functools
from typing import NamedTuple

import torch
from task import input_t, output_t

DUAL = 0  # two products with the same A, or one
TOKENS, A_STAGES = 128, 4  # of a tile, which is wgmma's n; of 64 values of k, decoded

TYPES = """
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;
typedef unsigned short u16;
"""

PRIMITIVES = r"""
// The hardware, one instruction a function.
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(u32 to, const u8* from, bool valid) {  // zeros where not valid
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy4(u32 to, const u8* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ uint4 load16(u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ u32 load4(u32 from) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ void store16(u32 to, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
__device__ __forceinline__ void barrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {  // arrives, too
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra AGAIN;}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ __forceinline__ void show_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void sync_consumers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All blocks are here. It orders no memory: a release would wait for all that was ever written.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ u32 address_in(u32 address, int rank) {  // the same place in another block of the cluster
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
// Asynchronously; the barrier, of the block that they go to, counts the bytes that have come.
__device__ __forceinline__ void store_there(u32 to, const float* v, u32 barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
               ::"r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier) : "memory");
}
__device__ __forceinline__ void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(2 + group) : "memory"); }
__device__ __forceinline__ void store_partial(float* to, const float* v) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               ::"l"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
}
// What the block wrote before shows to whoever sees what this thread writes next.
__device__ __forceinline__ void publish() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void count(u32* counter, u32 last) {  // one up, and from `last` back to 0
  asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(counter), "r"(last) : "memory");
}
__device__ __forceinline__ void await_count(const u32* counter, u32 least) {
  u32 now;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  while (now < least);
}
__device__ __forceinline__ void store_transposed(u32 to, const u32* v) {  // four 8 × 8 matrices of fp16
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void pin(float& x) { asm volatile("" : "+f"(x)::"memory"); }
template <int COUNT>
__device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT>
__device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
__device__ __forceinline__ u32 multiply(u32 a, u32 b) {  // two fp16, subnormals kept
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
__device__ __forceinline__ u32 halves_of_e4m3(u32 two) {
  u32 d;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"((u16)two));
  return d;
}
"""


def wgmma() -> str:
    """The product of 64 × 16 weights, in registers, and 16 × TOKENS activations, in shared memory, added to d."""
    count = TOKENS // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return f"""
__device__ __forceinline__ void wgmma(float (&d)[{count}], const u32* a, u64 b) {{
  asm volatile("{{.reg .pred p; setp.eq.b32 p, 0, 0;\\n"
    "wgmma.mma_async.sync.aligned.m64n{TOKENS}k16.f32.f16.f16 {{{registers}}}, "
    "{{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}, %{count + 4}, p, 1, 1, 0;}}"
    : {operands} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}}
"""


PIPELINE = r"""
constexpr int PRODUCERS = 128;                     // threads that decode activations
constexpr int GROUPS = 2;                          // warpgroups that decode weights and multiply
constexpr int CONSUMERS = 128 * GROUPS;
constexpr int COLUMNS = (DUAL ? 32 : 64) * MI * GROUPS;  // of C, of a tile
constexpr int PIECES = 2 * MI;                     // rows of weights that a thread decodes
constexpr int PITCH = COLUMNS + 8;                 // of a row of C in shared memory: eight rows share no banks

constexpr int A_BYTES = N * 128;                   // a stage of activations: 64 values of k, in fp16
constexpr int RAW_A_BYTES = 4 * 128 * 16, RAW_SFA_BYTES = 2 * 128 * 4;  // a chunk of them as it came
constexpr int RAW_B_BYTES = PIECES * CONSUMERS * 16, RAW_SFB_BYTES = PIECES * CONSUMERS * 4;
constexpr int AT_RAW_B = A_STAGES * A_BYTES;
constexpr int AT_RAW_SFB = AT_RAW_B + RAW_B_STAGES * RAW_B_BYTES;
constexpr int AT_RAW_A = AT_RAW_SFB + RAW_B_STAGES * RAW_SFB_BYTES;
constexpr int AT_RAW_SFA = AT_RAW_A + RAW_A_STAGES * RAW_A_BYTES;
constexpr int AT_BARRIERS = AT_RAW_SFA + RAW_A_STAGES * RAW_SFA_BYTES;
constexpr int AT_RECEIVED = AT_BARRIERS + 16 * A_STAGES;  // a cluster's barrier
constexpr int AT_TEAMS = AT_RECEIVED + 16;                // here, stream-K's
constexpr int AT_UNITS = AT_TEAMS + 64;

struct Tile {
  const u8 *a, *sfa, *b[2], *sfb[2];
  u16* c;
  int m, n, k;
  int token, column;   // of C: where the tile begins
  int chunk, chunks;   // of 128 values of k: one of them, and how many the tile has
};

// The chunks that a block sums up, of all tiles' in a row: from begin, and up to end.
struct Range {
  int begin, end;
};

// Where the reordered scales have that of row i's block j.
__device__ __forceinline__ u64 scale_place(int i, int j, int k) {
  return ((u64)(i / 128) * (k / 64) + j / 4) * 512 + i % 32 * 16 + i % 128 / 32 * 4;
}

// Two e4m3 scales, times 2^7, as fp16.
__device__ __forceinline__ u32 scale_pair(u32 two) { return multiply(halves_of_e4m3(two), 0x58005800u); }

// Eight e2m1 codes, times a scale, times 2^-7, as four pairs of fp16: values (0, 4), (1, 5), (2, 6), (3, 7).
// The code's sign, exponent and upper mantissa bit, put at fp16's, are the value times 2^-14.
__device__ __forceinline__ void decode8(u32 codes, u32 scale, u32* pairs) {
  u32 even = ((codes << 4) & 0x80808080u) | ((codes << 1) & 0x0e0e0e0eu);
  u32 odd = (codes & 0x80808080u) | ((codes >> 3) & 0x0e0e0e0eu);
  pairs[0] = multiply(__byte_perm(even, 0, 0x2404), scale);
  pairs[1] = multiply(__byte_perm(odd, 0, 0x2404), scale);
  pairs[2] = multiply(even & 0xff00ff00u, scale);
  pairs[3] = multiply(odd & 0xff00ff00u, scale);
}

// Stream-K: all chunks in a row are dealt out evenly, so blocks begin and end in the midst of tiles. All start at the
// same time, so each has its last tile's sums when all have, and its first tile's before. Of the blocks of a tile,
// those that have nothing more to do then wait for one another and share the work of adding up, some units of the tile
// each; one that goes on to another tile just leaves its sums. Sums go through memory, in the order of registers.
constexpr int UNIT = 4;                                // eights of tokens, of one of a warp's blocks of rows
constexpr int UNITS = MI * N / 8 / UNIT;               // of a tile
constexpr int UNIT_COLUMNS = DUAL ? 32 : 64, UNIT_PITCH = UNIT_COLUMNS + 8;
constexpr int UNIT_BYTES = 32 * UNIT_PITCH * 2;
constexpr int PART = MI * N / 2 * CONSUMERS;           // floats: a block's sums of a tile
constexpr int COUNTERS_APART = 32;                     // so that each has 128 bytes of its own

// The first `more` blocks have a chunk more than the rest.
struct Shares {
  int each, more;
  __device__ __forceinline__ int begin(int block) const { return block * each + min(block, more); }
  __device__ __forceinline__ int owner(int chunk) const {
    const int longer = more * (each + 1);
    const bool in = chunk < longer;
    return (in ? 0 : more) + (in ? chunk : chunk - longer) / (each + in);
  }
};

// `all` chunks a tile.
__device__ __forceinline__ Range range_of(const Shares& s, int all) {
  const int block = blockIdx.x, item = block / S, rank = S > 1 ? cluster_rank() : 0;
  if (STREAM) return {s.begin(block), s.begin(block + 1)};
  return {item * all + all * rank / S, item * all + all * (rank + 1) / S};
}

// Who has to do with a tile, and what is this block's.
struct Team {
  int first, count;    // blocks
  int last_is_early;   // of them the last has more to do afterwards; all others have not
  int begin, end;      // the units that this block adds up, if it is a finisher
  int counted;         // what is counted in all: the blocks, and the finishers once more
};

__device__ __forceinline__ Team team_of(int begin, int end, const Shares& s) {  // a tile's chunks
  const int first = s.owner(begin), last = s.owner(end - 1), count = last - first + 1;
  const int last_is_early = s.begin(last + 1) > end;
  const int finishers = min(count - last_is_early, UNITS), mine = (int)blockIdx.x - first;
  const bool finisher = mine < finishers;
  return {first, count, last_is_early, finisher ? UNITS * mine / finishers : 0,
          finisher ? UNITS * (mine + 1) / finishers : 0, count + finishers};
}

// The teams of a block's first and last tile are worked out while it waits for its first weights, and kept till needed.
template <class Find>
__device__ __forceinline__ void keep_teams(u32 base, int which, Range r, const Find& find, const Shares& s) {
  const int chunk = which ? r.end - 1 : r.begin;
  const Tile t = find(chunk);
  const Team team = team_of(chunk - t.chunk, chunk - t.chunk + t.chunks, s);
  store16(base + AT_TEAMS + which * 32, team.first, team.count, team.last_is_early, team.counted);
  store16(base + AT_TEAMS + which * 32 + 16, team.begin, team.end, 0, 0);
}
__device__ __forceinline__ Team kept_team(u32 base, int which) {
  uint4 v = load16(base + AT_TEAMS + which * 32), w = load16(base + AT_TEAMS + which * 32 + 16);
  return {(int)v.x, (int)v.y, (int)v.z, (int)w.x, (int)w.y, (int)v.w};
}

// What a block of a cluster gets of the others': their sums of its part of the tile's tokens.
constexpr int SLICE = N / 8 / S;  // eights of tokens that a block ends up with
constexpr int RECEIVED_BYTES = (S - 1) * SLICE * MI * CONSUMERS * 16;

// The first copies are on their way by now.
__device__ __forceinline__ void prepare_barriers(u32 base) {
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < A_STAGES; ++i) {
      barrier_init(base + AT_BARRIERS + 8 * i, PRODUCERS / 32);                // full
      barrier_init(base + AT_BARRIERS + 8 * (A_STAGES + i), CONSUMERS / 32);   // empty
    }
    if (S > 1) {
      barrier_init(base + AT_RECEIVED, 1);
      barrier_expect(base + AT_RECEIVED, RECEIVED_BYTES);
    }
    barriers_ready();
  }
  __syncthreads();
}

// Producers: a thread decodes the row of one token. A warp fetches the rows that it decodes, four threads a row: by
// itself a thread would ask for its row 16 bytes at a time, and a warp for 32 rows at once.
template <class Find>
__device__ __forceinline__ void produce(u32 base, Range r, const Find& find) {
  const u32 full = base + AT_BARRIERS, empty = full + 8 * A_STAGES;
  const int thread = threadIdx.x, lane = thread % 32, first = thread - lane + lane / 4;  // to fetch, of rows 8 apart
  int next = r.begin, of_tile = 0;  // chunks that are left of the tile, with the next
  int rows;                         // of the tile, from the first to fetch on
  u32 apart;
  const u8 *value, *scale;
  // The pieces of a row are swizzled, so that eight threads that read theirs share no banks.
  const u32 raw_to = base + AT_RAW_A + first * 64 + (lane ^ first / 2) % 4 * 16;
  const u32 raw_at = base + AT_RAW_A + thread * 64 + thread / 2 % 4 * 16, codes_at = base + AT_RAW_SFA + thread * 4;
  auto place = [&] {
    const Tile t = find(next);
    const int tokens = min(N, t.m - t.token);
    rows = tokens - first;
    apart = 8 * (t.k / 2);
    value = t.a + (u64)(t.token + min(first, tokens - 1)) * (t.k / 2) + t.chunk * 64 + lane % 4 * 16;
    scale = t.sfa + scale_place(t.token + min(thread, tokens - 1), 8 * t.chunk, t.k);
    of_tile = t.chunks - t.chunk;
  };
  if (!STREAM) place();
  auto fetch = [&](int slot) {
    if (next < r.end) {
      if (STREAM && of_tile == 0) place();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool valid = 8 * i < rows;
        copy16(raw_to + slot * RAW_A_BYTES + i * 512, value + (valid ? i * apart : 0), valid);
      }
      for (int i = 0; i < 2; ++i) copy4(codes_at + slot * RAW_SFA_BYTES + i * 128 * 4, scale + i * 512);
      value += 64;
      scale += 1024;
      ++next;
      if (STREAM) --of_tile;
    }
    commit_copies();
  };
#pragma unroll 1
  for (int i = 0; i < RAW_A_STAGES; ++i) fetch(i);
  prepare_barriers(base);
  int slot = 0, stage = 0;
  u32 parity = 1;
  for (int left = r.end - r.begin; left > 0; --left) {
    await_copies<RAW_A_STAGES - 1>();
    __syncwarp();
    uint4 raw[4];
    u32 scales[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) raw[q] = load16((raw_at + slot * RAW_A_BYTES) ^ q * 16);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      u32 codes = load4(codes_at + slot * RAW_SFA_BYTES + q / 2 * 128 * 4);
      scales[q] = scale_pair(codes >> 16 * (q % 2));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 pairs[4][8];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        u32 s = __byte_perm(scales[q], 0, half ? 0x3232 : 0x1010);
        decode8(half ? raw[q].z : raw[q].x, s, pairs[q]);
        decode8(half ? raw[q].w : raw[q].y, s, pairs[q] + 4);
      }
      barrier_wait(empty + 8 * (stage + half), parity);
      const u32 to = base + (stage + half) * A_BYTES + thread * 128 + thread % 8 * 16;
      if (thread < N) {
#pragma unroll
        for (int i = 0; i < 8; ++i)  // 128-byte swizzle
          store16(to ^ i * 16, pairs[0][i], pairs[1][i], pairs[2][i], pairs[3][i]);
      }
      show_to_tensor_cores();
      __syncwarp();
      if (lane == 0) barrier_arrive(full + 8 * (stage + half));
    }
    fetch(slot);  // the warp has met since it read the slot; and the fence might wait for copies that are on their way
    if (++slot == RAW_A_STAGES) slot = 0;
    if ((stage += 2) == A_STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
}

// Where wgmma finds N rows of 128 swizzled bytes.
__device__ __forceinline__ u64 descriptor(u32 address) {
  return (u64)1 << 62 | (u64)64 << 32 | (u64)1 << 16 | (address >> 4);
}

// Consumers: a thread decodes the weights that wgmma expects in its registers. `done` is told of what was summed
// up, by its first chunk: of all, or of a tile's. The pipeline runs on meanwhile, and over the borders of tiles.
template <class Find, class Done>
__device__ __forceinline__ void consume(
    u32 base, Range r, const Find& find, const Shares& s, float (&sum)[MI][N / 2], const Done& done) {
  const u32 full = base + AT_BARRIERS, empty = full + 8 * A_STAGES;
  const int thread = threadIdx.x - PRODUCERS, group = thread / 128, warp = thread % 128 / 32, lane = thread % 32;
  int next = r.begin, of_tile = 0;  // as in produce
  Tile t;
  u32 value[PIECES], scale[PIECES];
  const u32 raw_at = base + AT_RAW_B + thread * 16, codes_at = base + AT_RAW_SFB + thread * 4;
  auto place = [&] {
    t = find(next);
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      int i = group * MI + p / 2, row = lane / 4 + (DUAL ? i * 32 + warp * 8 : i * 64 + warp * 16 + p % 2 * 8);
      row = min(t.column + row, t.n - 1);
      value[p] = row * (u32)(t.k / 2) + t.chunk * 64 + lane % 4 * 16;
      scale[p] = scale_place(row, 8 * t.chunk + lane % 4 * 2, t.k);
    }
    of_tile = t.chunks - t.chunk;
  };
  if (!STREAM) place();
  auto fetch = [&](int slot) {
    if (next < r.end) {
      if (STREAM && of_tile <= 0) place();
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const int which = DUAL * (p % 2);
        copy16(raw_at + slot * RAW_B_BYTES + p * CONSUMERS * 16, t.b[which] + value[p], true);
        copy4(codes_at + slot * RAW_SFB_BYTES + p * CONSUMERS * 4, t.sfb[which] + scale[p]);
        value[p] += 64;
        scale[p] += 1024;
      }
      ++next;
      if (STREAM) --of_tile;
    }
    commit_copies();
  };
#pragma unroll 1
  for (int i = 0; i < RAW_B_STAGES; ++i) fetch(i);
  if (STREAM && thread < 2) keep_teams(base, thread, r, find, s);
  prepare_barriers(base);

  // Steps of 16 values of k that are decoded together; what they became stays in registers until wgmma has read it, so
  // there are two sets of them, and the next one is decoded while the tensor cores work on the last.
  constexpr int STEPS = MI == 1 ? 4 : 2, PARTS = 4 / STEPS;
  u32 operand[2][MI][4 * STEPS];
  uint4 raw[PIECES];
  u32 codes[PIECES];
  auto load = [&](int slot) {
    await_copies<RAW_B_STAGES - 1>();
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      raw[p] = load16(raw_at + slot * RAW_B_BYTES + p * CONSUMERS * 16);
      codes[p] = load4(codes_at + slot * RAW_SFB_BYTES + p * CONSUMERS * 4);
    }
  };
  load(0);
  int slot = 0, stage = 0, previous = 0;
  u32 parity = 0;
  int chunk = r.begin;
  do {
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < N / 2; ++j) sum[i][j] = 0;
    const int start = chunk;
    const Tile now = find(start);
    const int stop = STREAM ? min(r.end, start - now.chunk + now.chunks) : r.end;
    for (; chunk < stop; ++chunk) {
      u32 scales[PIECES];
#pragma unroll
      for (int p = 0; p < PIECES; ++p) scales[p] = scale_pair(codes[p] >> 16 * (lane & 1));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
          auto& now = operand[PARTS == 1 ? half : part];
#pragma unroll
          for (int p = 0; p < PIECES; ++p) {
            u32 s = __byte_perm(scales[p], 0, half ? 0x3232 : 0x1010), pairs[8];
            if (PARTS == 1 || part == 0) decode8(half ? raw[p].z : raw[p].x, s, pairs);
            if (PARTS == 1 || part == 1) decode8(half ? raw[p].w : raw[p].y, s, pairs + (PARTS == 1 ? 4 : 0));
#pragma unroll
            for (int e = 0; e < 2 * STEPS; ++e) now[p / 2][e / 2 * 4 + p % 2 + e % 2 * 2] = pairs[e];
          }
          if (part == 0) barrier_wait(full + 8 * stage, parity);
          products_begin();
          u64 b = descriptor(base + stage * A_BYTES) + 2 * STEPS * part;
#pragma unroll
          for (int s = 0; s < STEPS; ++s)
#pragma unroll
            for (int i = 0; i < MI; ++i) wgmma(sum[i], now[i] + 4 * s, b + 2 * s);
          products_commit();
          if (half && part == PARTS - 1) {  // all is decoded: what comes next is read while the tensor cores work
            fetch(slot);
            if (++slot == RAW_B_STAGES) slot = 0;
            load(slot);
          }
          products_wait<1>();
          if (part == 0 && (half || chunk > r.begin) && lane == 0) barrier_arrive(empty + 8 * previous);
        }
        previous = stage;
        if (++stage == A_STAGES) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < N / 2; ++j) pin(sum[i][j]);
    done(now, start);
  } while (STREAM && chunk < r.end);
}

// The S blocks of a cluster have summed over S parts of k. Each ends up with N / S tokens of the whole sum: it sends
// the others theirs, every thread to the thread of the same place, in the order of its registers.
template <int MINE>
__device__ __forceinline__ void send(u32 base, const float (&sum)[MI][N / 2]) {
  const int thread = threadIdx.x - PRODUCERS;
#pragma unroll
  for (int other = 0; other < S; ++other) {
    if (other == MINE) continue;
    const u32 to = address_in(base + ((MINE - (MINE > other)) * SLICE * MI * CONSUMERS + thread) * 16, other);
    const u32 barrier = address_in(base + AT_RECEIVED, other);
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < SLICE; ++j)
        store_there(to + (i * SLICE + j) * CONSUMERS * 16, sum[i] + 4 * (other * SLICE + j), barrier);
  }
}
template <int MINE>
__device__ __forceinline__ void receive(u32 base, const float (&sum)[MI][N / 2], float (&slice)[MI][N / 2 / S]) {
  const int thread = threadIdx.x - PRODUCERS;
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < SLICE; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) slice[i][4 * j + e] = sum[i][4 * (MINE * SLICE + j) + e];
#pragma unroll
      for (int other = 0; other < S - 1; ++other) {
        uint4 v = load16(base + (((other * MI + i) * SLICE + j) * CONSUMERS + thread) * 16);
        slice[i][4 * j] += __uint_as_float(v.x);
        slice[i][4 * j + 1] += __uint_as_float(v.y);
        slice[i][4 * j + 2] += __uint_as_float(v.z);
        slice[i][4 * j + 3] += __uint_as_float(v.w);
      }
    }
}

constexpr float UNSCALE = 16384;  // both operands were decoded to 2^-7 of what they are

__device__ __forceinline__ float gated(float gate, float linear) {
  gate *= UNSCALE;  // a division that rounds right would be most of the code of this kernel's end
  return __fdividef(gate, 1 + __expf(-gate)) * (linear * UNSCALE);
}

// To C by way of shared memory at `at`: wgmma leaves a thread with tokens of a row of weights, and C's rows are tokens.
template <int TOKENS>
__device__ __forceinline__ void store_tile(u32 at, const Tile& t, int token, const float (&sum)[MI][TOKENS / 2]) {
  const int thread = threadIdx.x - PRODUCERS, group = thread / 128, warp = thread % 128 / 32, lane = thread % 32;
  constexpr int PER_STORE = DUAL ? 4 : 2;  // eights of tokens
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j += PER_STORE) {
      u32 v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float* d = DUAL ? sum[i] + 4 * (j + e) : sum[i] + 4 * (j + e / 2) + e % 2 * 2;
        v[e] = DUAL ? pack(gated(d[0], d[2]), gated(d[1], d[3])) : pack(d[0] * UNSCALE, d[1] * UNSCALE);
      }
      int row = 8 * (j + lane / (DUAL ? 8 : 16)) + lane % 8;
      int column = DUAL ? (group * MI + i) * 32 + warp * 8 : (group * MI + i) * 64 + warp * 16 + lane / 8 % 2 * 8;
      store_transposed(at + (row * PITCH + column) * 2, v);
    }
  sync_consumers();
  constexpr int VECTORS = COLUMNS / 8;
  for (int i = thread; i < TOKENS * VECTORS; i += CONSUMERS) {
    int row = i / VECTORS, column = i % VECTORS * 8;
    uint4 v = load16(at + (row * PITCH + column) * 2);
    if (token + row < t.m && t.column + column < t.n)
      *(uint4*)(t.c + (u64)(token + row) * t.n + t.column + column) = v;
  }
}

// 32 tokens of a warpgroup's columns to C, by way of shared memory. Units whose numbers differ by one have places of
// their own there, so one barrier is enough.
__device__ __forceinline__ void store_unit(u32 base, const Tile& t, int unit, const float* sum) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int group = (threadIdx.x - PRODUCERS) / 128, i = unit / (N / 32), token = t.token + unit % (N / 32) * 32;
  const u32 at = base + AT_UNITS + (unit % 2 * GROUPS + group) * UNIT_BYTES;
#pragma unroll
  for (int j = 0; j < UNIT; j += DUAL ? 4 : 2) {
    u32 v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float* d = DUAL ? sum + 4 * (j + e) : sum + 4 * (j + e / 2) + e % 2 * 2;
      v[e] = DUAL ? pack(gated(d[0], d[2]), gated(d[1], d[3])) : pack(d[0] * UNSCALE, d[1] * UNSCALE);
    }
    int row = 8 * (j + lane / (DUAL ? 8 : 16)) + lane % 8, column = DUAL ? warp * 8 : warp * 16 + lane / 8 % 2 * 8;
    store_transposed(at + (row * UNIT_PITCH + column) * 2, v);
  }
  sync_group(group);
  constexpr int VECTORS = UNIT_COLUMNS / 8;
#pragma unroll
  for (int x = thread; x < 32 * VECTORS; x += 128) {
    int row = x / VECTORS, column = t.column + (group * MI + i) * UNIT_COLUMNS + x % VECTORS * 8;
    uint4 v = load16(at + (row * UNIT_PITCH + x % VECTORS * 8) * 2);
    if (token + row < t.m && column < t.n) *(uint4*)(t.c + (u64)(token + row) * t.n + column) = v;
  }
}

struct Workspace {
  u32* counters;
  float* parts;
  // Where a block leaves sums: its first tile's, and its last's.
  __device__ __forceinline__ float* part(int block, bool early) const {
    return parts + (u64)(2 * block + early) * PART;
  }
};

// Units of a tile to C, after the others' sums of them have been added, in their order. These come like weights: a
// thread copies what it will add, asynchronously and ahead of time, over the pipeline's shared memory.
constexpr int SHARE_BYTES = UNIT * CONSUMERS * 16;  // a unit's sums, of one block
constexpr int SHARES_AHEAD = 8;
static_assert(SHARES_AHEAD * SHARE_BYTES <= AT_BARRIERS || !STREAM, "");

__device__ __forceinline__ void add_up(
    u32 base, const Tile& t, const Team& team, const Workspace& workspace, float (&sum)[MI][N / 2]) {
  const int thread = threadIdx.x - PRODUCERS, mine = (int)blockIdx.x - team.first, others = team.count - 1;
  int next = others > 0 ? team.begin : team.end, next_other = 0;  // what is copied next: its unit, and whose
  auto fetch = [&](int slot) {
    if (next < team.end) {
      const int other = next_other + (next_other >= mine);
      const bool early = team.last_is_early && other == others;
      const float* part = workspace.part(team.first + other, early) + (next * UNIT * CONSUMERS + thread) * 4;
#pragma unroll
      for (int j = 0; j < UNIT; ++j)
        copy16(base + slot * SHARE_BYTES + (j * CONSUMERS + thread) * 16, (const u8*)(part + j * CONSUMERS * 4), true);
      if (++next_other == others) next_other = 0, ++next;
    }
    commit_copies();
  };
#pragma unroll 1
  for (int i = 0; i < SHARES_AHEAD; ++i) fetch(i);
  int slot = 0;
#pragma unroll
  for (int unit = 0; unit < UNITS; ++unit) {
    if (unit < team.begin || team.end <= unit) continue;
    float* d = sum[unit / (N / 32)] + unit % (N / 32) * 4 * UNIT;
#pragma unroll 1
    for (int other = 0; other < others; ++other) {
      await_copies<SHARES_AHEAD - 1>();
#pragma unroll
      for (int j = 0; j < UNIT; ++j) {
        const uint4 v = load16(base + slot * SHARE_BYTES + (j * CONSUMERS + thread) * 16);
        d[4 * j] += __uint_as_float(v.x), d[4 * j + 1] += __uint_as_float(v.y);
        d[4 * j + 2] += __uint_as_float(v.z), d[4 * j + 3] += __uint_as_float(v.w);
      }
      fetch(slot);
      slot = (slot + 1) % SHARES_AHEAD;
    }
    store_unit(base, t, unit, d);
  }
}

// A tile's counter, of the first of its blocks, counts those that left their sums and then those that saw that all did;
// the last of these makes it 0 again, for the next launch. That blocks wait for one another wants all to run at once.
__device__ __forceinline__ u32* counter_of(const Team& team, const Workspace& workspace) {
  return workspace.counters + team.first * COUNTERS_APART;
}
__device__ __forceinline__ void count_in(const Team& team, const Workspace& workspace) {
  count(counter_of(team, workspace), team.counted - 1);
}

// Leaves the units that others add up.
__device__ __forceinline__ void leave(const Team& team, float* part, const float (&sum)[MI][N / 2]) {
  const int thread = threadIdx.x - PRODUCERS;
#pragma unroll
  for (int unit = 0; unit < UNITS; ++unit) {
    if (team.begin <= unit && unit < team.end) continue;
#pragma unroll
    for (int j = 0; j < UNIT; ++j)
      store_partial(part + ((unit * UNIT + j) * CONSUMERS + thread) * 4,
                    sum[unit / (N / 32)] + (unit % (N / 32) * UNIT + j) * 4);
  }
}

// Nobody needs the sums of a block's first tile before those of all last tiles are ready. Till then it is `owed`
// to publish them, and the pipeline needn't stop until they have arrived in memory.
__device__ __forceinline__ void finish(
    u32 base, const Tile& t, int start, Range r, const Workspace& workspace, float (&sum)[MI][N / 2], bool& owed) {
  const bool first = threadIdx.x == PRODUCERS;
  const int begin = start - t.chunk, end = begin + t.chunks;
  const bool whole = r.begin <= begin && end <= r.end, early = !whole && r.end > end;
  const Team team = whole ? Team{(int)blockIdx.x, 1, 0, 0, UNITS, 0} : kept_team(base, !early);
  if (!whole) leave(team, workspace.part(blockIdx.x, early), sum);
  if (early) {
    owed = true;
    return;
  }
  if (!whole || owed) {
    sync_consumers();  // all have left their sums, and shared memory is free for others'
    if (first) {
      publish();
      if (owed) count_in(kept_team(base, 0), workspace);
      if (!whole) count_in(team, workspace);
    }
    owed = false;
  }
  if (team.begin == team.end) return;
  if (!whole) {
    if (first) await_count(counter_of(team, workspace), team.count);
    sync_consumers();
    if (first) count_in(team, workspace);
  }
  add_up(base, t, team, workspace, sum);
}

template <class Find>
__device__ __forceinline__ void run(
    u32 shared, Range r, const Find& find, const Shares& s, const Workspace& workspace) {
  u32 base = (shared + 1023) & ~1023u;  // the swizzle's pattern repeats every 1024 bytes
  constexpr bool UNEVEN = STREAM || MI == 2;  // warpgroups' needs of registers
  if (threadIdx.x < PRODUCERS) {
    if constexpr (UNEVEN) fewer_registers<72>();
    produce(base, r, find);
    if constexpr (S > 1) cluster_sync();
  } else {
    if constexpr (UNEVEN) more_registers<216>();
    float sum[MI][N / 2];
    if constexpr (STREAM) {
      bool owed = false;
      auto done = [&](const Tile& t, int start) { finish(base, t, start, r, workspace, sum, owed); };
      consume(base, r, find, s, sum, done);
      return;
    }
    consume(base, r, find, s, sum, [](const Tile&, int) {});
    const Tile t = find(r.begin);
    if constexpr (S == 1) {
      sync_consumers();  // shared memory is free for C
      store_tile<N>(base, t, t.token, sum);
    } else {
      float slice[MI][N / 2 / S];
      int rank = cluster_rank();
      cluster_sync();  // shared memory is free for sums, everywhere
      if (rank == 0) send<0>(base, sum);
      if (rank == 1) send<1>(base, sum);
      if constexpr (S > 2) {
        if (rank == 2) send<2>(base, sum);
        if (rank == 3) send<3>(base, sum);
      }
      barrier_wait(base + AT_RECEIVED, 0);
      if (rank == 0) receive<0>(base, sum, slice);
      if (rank == 1) receive<1>(base, sum, slice);
      if constexpr (S > 2) {
        if (rank == 2) receive<2>(base, sum, slice);
        if (rank == 3) receive<3>(base, sum, slice);
      }
      store_tile<N / S>(base + RECEIVED_BYTES, t, t.token + rank * (N / S), slice);
    }
  }
}
"""

KERNEL = r"""
// For stream-K a row of 64 bytes in shared memory for each group: the group of a chunk must be found again and again.
__device__ __forceinline__ const u8* pointer(u32 low, u32 high) { return (const u8*)((u64)high << 32 | low); }
__device__ __forceinline__ u32 low(const void* p) { return (u32)(u64)p; }
__device__ __forceinline__ u32 high(const void* p) { return (u32)((u64)p >> 32); }
__device__ __forceinline__ void store_group(u32 row, const Tile& t) {
  store16(row, low(t.a), high(t.a), low(t.sfa), high(t.sfa));
  store16(row + 16, low(t.b[0]), high(t.b[0]), low(t.sfb[0]), high(t.sfb[0]));
  store16(row + 32, low(t.c), high(t.c), t.m, t.n);
  store16(row + 48, t.k, t.chunks, 0, 0);
}
__device__ __forceinline__ Tile tile_in(u32 row, int chunk) {
  for (int chunks; chunk >= (chunks = load4(row + 52)); row += 64) chunk -= chunks;
  const uint4 p = load16(row), q = load16(row + 16), r = load16(row + 32);
  const u8 *b = pointer(q.x, q.y), *sfb = pointer(q.z, q.w);
  const int m = r.z, n = r.w, k = load4(row + 48), all = k / 128;
  const int across = (n + COLUMNS - 1) / COLUMNS, item = chunk / all;
  return {pointer(p.x, p.y), pointer(p.z, p.w), {b, b}, {sfb, sfb}, (u16*)pointer(r.x, r.y), m, n, k,
          item / across * N, item % across * COLUMNS, chunk % all, all};
}

extern "C" __global__ void CLUSTER __launch_bounds__(PRODUCERS + CONSUMERS, 1) nvfp4_group_gemm(
    u32* counters, float* parts, int each, int more, ARGUMENTS) {
  extern __shared__ u8 shared[];
  if constexpr (STREAM) {
    const u32 table = ((shared_address(shared) + 1023) & ~1023u) + AT_UNITS + 2 * GROUPS * UNIT_BYTES;
    Tile whole = {};
    auto here = [&](int group, const u8* a, const u8* b, const u8* sfa, const u8* sfb, u16* c, int m, int n, int k) {
      const int chunks = (n + COLUMNS - 1) / COLUMNS * ((m + N - 1) / N) * (k / 128);
      if (threadIdx.x == group) whole = {a, sfa, {b, b}, {sfb, sfb}, c, m, n, k, 0, 0, 0, chunks};
    };
    GROUPS_IN_ORDER
    if (threadIdx.x < COUNT) store_group(table + 64 * threadIdx.x, whole);
    __syncthreads();
    const Shares s = {each, more};
    run(shared_address(shared), range_of(s, 0), [&](int chunk) { return tile_in(table, chunk); }, s, {counters, parts});
    return;
  }
  int item = blockIdx.x / S;
  Tile t;
  auto here = [&](int, const u8* a, const u8* b, const u8* sfa, const u8* sfb, u16* c, int m, int n, int k) {
    const int across = (n + COLUMNS - 1) / COLUMNS, tiles = across * ((m + N - 1) / N);
    if (item < 0) return;  // an earlier group's
    if (item < tiles)
      t = {a, sfa, {b, b}, {sfb, sfb}, c, m, n, k, item / across * N, item % across * COLUMNS, 0, k / 128};
    item -= tiles;
  };
  GROUPS_IN_ORDER
  auto find = [&](int chunk) {
    Tile at = t;
    at.chunk = chunk;
    return at;
  };
  const int rank = S > 1 ? cluster_rank() : 0;
  run(shared_address(shared), {t.chunks * rank / S, t.chunks * (rank + 1) / S}, find, {}, {});
}
"""


def kernel_source(groups: int, split: int) -> str:
    """The kernel for so many groups."""
    parameters, calls = [], []
    for g in range(groups):
        parameters.append(f"const u8* a{g}, const u8* b{g}, const u8* sfa{g}, const u8* sfb{g}, u16* c{g}")
        parameters.append(f"int m{g}, int n{g}, int k{g}")
        calls.append(f"here({g}, a{g}, b{g}, sfa{g}, sfb{g}, c{g}, m{g}, n{g}, k{g});")
    text = KERNEL.replace("CLUSTER", f"__cluster_dims__({split}, 1, 1)" if split > 1 else "")
    text = text.replace("ARGUMENTS", ", ".join(parameters)).replace("GROUPS_IN_ORDER", "\n  ".join(calls))
    return text.replace("COUNT", str(groups))


STREAM_BYTES = 64 + 2 * 2 * 32 * ((32 if DUAL else 64) + 8) * 2  # teams, and units on their way to C
COUNTERS_APART, THREADS = 32, 384  # as in the kernel
MOST_GROUPS = 64  # of stream-K


class Config(NamedTuple):
    """Constants of the kernel."""

    mi: int  # 64-row blocks of weights of a warpgroup; a tile has 128·mi rows
    split: int  # blocks of a cluster, each with a part of k
    raw_a_stages: int = 4  # of 128 values of k, as they came
    raw_b_stages: int = 6
    stream: int = 0  # stream-K, with a split of 1: all tiles' chunks dealt out evenly to as many blocks as can run

    @property
    def columns(self) -> int:
        """Columns of C of a tile."""
        return 128 * self.mi >> DUAL

    @property
    def shared_bytes(self) -> int:
        a = A_STAGES * TOKENS * 128 + self.raw_a_stages * 128 * (64 + 8)
        b = self.raw_b_stages * 2 * self.mi * 256 * (16 + 4)
        barriers = A_STAGES * 16 + 16
        sums = (self.split - 1) * TOKENS // self.split * 128 * self.mi * 4
        c = TOKENS // self.split * (self.columns + 8) * 2
        if self.stream:
            return a + b + barriers + STREAM_BYTES + 64 * MOST_GROUPS + 1024
        return max(a + b + barriers, sums + c) + 1024

    @property
    def part_bytes(self) -> int:
        """A block's fp32 sums of a tile."""
        return TOKENS * 128 * self.mi * 4

    def blocks(self, tiles: int, chunks: int, multiprocessors: int) -> int:
        """For so many chunks in all. Of stream-K no more than the longest share needs: the fewer tiles are divided."""
        if not self.stream:
            return tiles * self.split
        longest = -(-chunks // multiprocessors)
        return -(-chunks // longest)

    def source(self, groups: int) -> str:
        constants = f"MI = {self.mi}, N = {TOKENS}, S = {self.split}, STREAM = {self.stream}, DUAL = {DUAL}"
        constants += f", A_STAGES = {A_STAGES}"
        constants += f", RAW_A_STAGES = {self.raw_a_stages}, RAW_B_STAGES = {self.raw_b_stages}"
        kernel = kernel_source(groups, self.split)
        return f"{TYPES}constexpr int {constants};\n{PRIMITIVES}{wgmma()}{PIPELINE}{kernel}"


# Of mi = 2, which needs the shared memory: fewer stages.
NARROW, WIDE = Config(1, 1), Config(2, 1, raw_a_stages=3, raw_b_stages=4)

# A fit to what an H200 took on all three boards, in µs: a chunk of 128 values of k, by mi; all else in the life of a
# block, by split; the launch; stream-K's exchange of sums, times mi, since there are so many, for every tile that a
# block has to do with. Clusters of four don't fill the card: 28 of them ran at once. The least estimate of each
# benchmark case is that of the configuration that was fastest. Estimates are off by 6 % in root mean square, by 16 % at
# most, but those of clusters of four by up to 35 %.
CHUNK_US, BLOCK_US, LAUNCH_US, FINISH_US = {1: 1.0, 2: 1.5}, {1: 3.5, 2: 4.5, 4: 7.0}, 4.0, 4.0


def estimate_us(config: Config, tiles: int, chunks: float, multiprocessors: int) -> float:
    """Of so many tiles, of so many chunks each on average."""
    if config.stream:
        longest = -(-round(tiles * chunks) // multiprocessors)
        finishing = -(-longest // chunks) * FINISH_US * config.mi
        return longest * CHUNK_US[config.mi] + finishing + BLOCK_US[1] + LAUNCH_US
    at_once = multiprocessors * 28 // 132 * 4 if config.split == 4 else multiprocessors
    waves = -(-tiles * config.split // at_once)
    return waves * (-(-chunks // config.split) * CHUNK_US[config.mi] + BLOCK_US[config.split]) + LAUNCH_US


CONFIGS = [base._replace(split=split) for base in (NARROW, WIDE) for split in (1, 2)]
CONFIGS += [WIDE._replace(split=4), *(base._replace(stream=1) for base in (NARROW, WIDE))]


@functools.cache
def kernel(groups: int, config: Config):
    """The kernel, compiled for Hopper."""
    compiled = torch.cuda._compile_kernel(config.source(groups), "nvfp4_group_gemm", compute_capability="90a")
    compiled.set_shared_memory_config(config.shared_bytes)
    return compiled


@functools.cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


@functools.lru_cache(maxsize=16)
def workspace(device: torch.device, stream: int, config: Config) -> tuple[torch.Tensor, torch.Tensor]:
    """Counters, which every launch leaves at 0, and two parts for each block. Launches that may run at the same time
    must not share one."""
    blocks = multiprocessors(device) if config.stream else 0
    counters = torch.zeros(blocks * COUNTERS_APART, dtype=torch.int32, device=device)
    return counters, torch.empty(blocks * 2 * config.part_bytes // 4, device=device)


def workspace_here(device: torch.device, config: Config) -> tuple[torch.Tensor, torch.Tensor]:
    """The current stream's; a graph, which may be replayed on any, gets one of its own."""
    of = workspace.__wrapped__ if torch.cuda.is_current_stream_capturing() else workspace
    return of(device, torch.cuda.current_stream(device).cuda_stream, config)


def check(n: int, k: int) -> None:
    """Raises ValueError for what the kernel can't do."""
    if k % 128 or n % 64 or n * k >= 1 << 33:
        raise ValueError(f"n = {n}, k = {k}: this kernel wants k in 128s, n in 64s, and B below 4 GiB")


def tiles_of(config: Config, sizes: list[tuple[int, int, int]]) -> int:
    return sum(-(-m // TOKENS) * -(-n // config.columns) for m, n, _ in sizes)


def chunks_of(config: Config, sizes: list[tuple[int, int, int]]) -> int:
    return sum(tiles_of(config, [size]) * (size[2] // 128) for size in sizes)


@functools.cache
def plan(sizes: tuple[tuple[int, int, int], ...], multiprocessors: int) -> Config:
    """For groups of (m, n, k)."""

    def cost(config: Config) -> float:
        tiles = tiles_of(config, sizes)
        return estimate_us(config, tiles, chunks_of(config, sizes) / tiles, multiprocessors)

    usable = [c for c in CONFIGS if c.split <= min(k for _, _, k in sizes) // 128]
    return min((c for c in usable if len(sizes) <= MOST_GROUPS or not c.stream), key=cost)


def launch(config: Config, abc, reordered, sizes) -> None:
    """abc and reordered as the board has them; sizes: (m, n, k) of each group."""
    device, chunks = abc[0][2].device, chunks_of(config, sizes)
    blocks = config.blocks(tiles_of(config, sizes), chunks, multiprocessors(device))
    arguments: list[torch.Tensor | int] = [*workspace_here(device, config), *divmod(chunks, blocks)]
    for g in sorted(range(len(sizes)), key=lambda g: -sizes[g][2]):
        a, b, c = abc[g]
        arguments += [a, b, *reordered[g], c, *sizes[g]]
    compiled = kernel(len(sizes), config)
    compiled((blocks, 1, 1), (THREADS, 1, 1), arguments, shared_mem=config.shared_bytes)


def custom_kernel(data: input_t) -> output_t:
    abc, _, reordered, problem_sizes = data
    sizes = tuple((m, n, k) for m, n, k, _ in problem_sizes)
    for _, n, k in sizes:
        check(n, k)
    launch(plan(sizes, multiprocessors(abc[0][2].device)), abc, reordered, sizes)
    return [c for _, _, c in abc]
