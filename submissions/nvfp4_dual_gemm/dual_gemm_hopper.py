#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu H200
"""NVFP4 gated dual GEMM on Hopper in CUDA, compiled at run time: one launch for both products, silu and their product.

C is computed transposed: B's rows, the weights, are wgmma's A operand, which may come from registers, and A's rows,
the tokens, its B operand, which must lie in shared memory.

    consumers   two warpgroups; a thread copies the bytes of its own rows of B to shared memory, asynchronously and
                ahead of time, and decodes them to fp16 in the registers in which wgmma expects them: no barrier, no
                shuffle, and decoded weights never go through memory
    producers   two warpgroups; a thread decodes half of a token's row of a chunk, 128 values of k, to fp16 in shared
                memory, in wgmma's swizzle; the consumers copy the bytes of A for them, too

Producers set the pace: to load, decode and store, and a fence that shows the tensor cores what was stored, is one long
chain for a warp. Two warpgroups work on two such chains at once. The fence might also wait for copies that its thread
has under way; so those who have no fence make them.

Both put the values of k in an order of their own, the same one, which no sum notices: a thread of wgmma's fragment
holds four values in 16 of k, so 16 bytes of a row, two blocks of the format, are one thread's work for two times 64
values of k. Even and odd codes of four bytes become fp16 with a shift or two and a choice between their bits, and for
each two values a mask, maybe with a shift, and a product with the scale. As the bits stand, a code is 2^-14 of its
value; scales come times 2^7, the rest is made good at the end. e2m1 times e4m3 has at most six significant bits and is
a multiple of 2^-10, so decoded operands are exact for any codes and scales, and fp32 sums are the only rounding before
the last.

Of the 16 rows of wgmma's fragment, the upper eight are rows of B1 and the lower eight the same rows of B2: so A is read
and decoded once for both, and a thread ends up with both sums of an element, and applies silu without asking anyone.

Where tiles are few, or don't fill the last wave, blocks share them. Up to four are a cluster, each with a part of a
tile's k, and add up their fp32 sums through each other's shared memory. Clusters of four leave multiprocessors idle.
With clusters of two and narrow tiles the loop over chunks is unrolled: the places of decoded activations are constants
then, and a chunk is fewer instructions.

Stream-K is the other way: the chunks of all tiles in a row are dealt out evenly to as many blocks as can run at once. A
block may begin and end in the midst of tiles; those that share one leave fp32 sums in global memory, wait for one
another, and add up a part of the tile each, in a fixed order, so results don't vary. The counters they wait for go back
to 0 by themselves, so a call needs no second launch, and each stream has its own. All blocks must run at once, so
nothing that waits for them may keep multiprocessors from them.

With fewer tiles than multiprocessors there is a third: each tile has a block of its own, and the multiprocessors that
are left have helpers, each of which sums up the last chunks of a few tiles and leaves the sums for the tiles' blocks.
They get a little less to do, so that nobody waits for them.

`plan` picks the tile and the way by a fit to measurements. Stream-K and helpers win where tiles or clusters would
leave multiprocessors idle for long; where they fill the card, the sums of either go a longer way.
"""

import functools
from typing import NamedTuple

import torch
from task import input_t, output_t

DUAL = 1  # two products with the same A, or one
TOKENS = 128  # of a tile, which is wgmma's n
THREADS = 512  # of a block: two warpgroups that decode A, two that decode B and multiply

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
// The barrier gets an arrival when all of the thread's copies so far have come.
__device__ __forceinline__ void arrive_after_copies(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
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
__device__ __forceinline__ uint2 load8(u32 from) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
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
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
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
template <int WHICH>
__device__ __forceinline__ u32 multiply_by_one_of(u32 a, u32 two) {  // two fp16 by the same one
  u32 d;
  if constexpr (WHICH)
    asm("{.reg .b16 x, y; .reg .b32 s; mov.b32 {x, y}, %2; mov.b32 s, {y, y}; mul.rn.f16x2 %0, %1, s;}"
        : "=r"(d) : "r"(a), "r"(two));
  else
    asm("{.reg .b16 x, y; .reg .b32 s; mov.b32 {x, y}, %2; mov.b32 s, {x, x}; mul.rn.f16x2 %0, %1, s;}"
        : "=r"(d) : "r"(a), "r"(two));
  return d;
}
// Bits of a where the mask has ones, of b elsewhere. Written with operators it becomes two operations.
__device__ __forceinline__ u32 choose(u32 mask, u32 a, u32 b) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xe4;" : "=r"(d) : "r"(a), "r"(b), "r"(mask));
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
constexpr int PRODUCERS = 256;                     // threads that decode activations, two warpgroups
constexpr int GROUPS = 2;                          // warpgroups that decode weights and multiply
constexpr int CONSUMERS = 128 * GROUPS;
constexpr int COLUMNS = (DUAL ? 32 : 64) * MI * GROUPS;  // of C, of a tile
constexpr int PIECES = 2 * MI;                     // rows of weights that a thread decodes
constexpr int PITCH = COLUMNS + 8;                 // of a row of C in shared memory: eight rows share no banks

constexpr int A_BYTES = N * 128;                   // a stage of activations: 64 values of k, in fp16
constexpr int STAGE_WARPS = MIXED ? 8 : 4;         // of producers that decode a stage
// A slot has a chunk, 128 values of k, as it came.
constexpr int RAW_A_BYTES = 4 * 128 * 16, RAW_SFA_BYTES = 2 * 128 * 4;
constexpr int RAW_B_BYTES = PIECES * CONSUMERS * 16, RAW_SFB_BYTES = PIECES * CONSUMERS * 4;
constexpr int AT_RAW_B = A_STAGES * A_BYTES;
constexpr int AT_RAW_SFB = AT_RAW_B + RAW_STAGES * RAW_B_BYTES;
constexpr int AT_RAW_A = AT_RAW_SFB + RAW_STAGES * RAW_SFB_BYTES;
constexpr int AT_RAW_SFA = AT_RAW_A + RAW_STAGES * RAW_A_BYTES;
constexpr int AT_BARRIERS = AT_RAW_SFA + RAW_STAGES * RAW_SFA_BYTES;
constexpr int AT_RECEIVED = AT_BARRIERS + 16 * A_STAGES;  // a cluster's barrier
constexpr int AT_RAW_FULL = AT_RECEIVED + 16;             // barriers, of the slots' activations
constexpr int AT_TEAMS = AT_RAW_FULL + (8 * RAW_STAGES + 15) / 16 * 16;  // here, stream-K's
constexpr int AT_UNITS = AT_TEAMS + 64;
constexpr int AT_SUMS = APART ? AT_UNITS : 0;             // a cluster's, behind the pipeline or over it
constexpr int TURNS = UNROLLED ? A_STAGES / 2 : 1;        // chunks of an iteration: so many, and stages are constants
static_assert(!UNROLLED || (!STREAM && MI == 1), "");     // else registers don't suffice
static_assert(!APART || S == 2, "");
static_assert(!HELPED || STREAM, "");
static_assert(AT_SUMS % 16 == 0, "");

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
  int skip = 0, skips = 0;  // others' chunks, which tiles but the first begin with; and how many such tiles there are
  __device__ __forceinline__ int chunks() const { return end - begin - skip * skips; }
};

// Where the reordered scales have that of row i's block j.
__device__ __forceinline__ u64 scale_place(int i, int j, int k) {
  return ((u64)(i / 128) * (k / 64) + j / 4) * 512 + i % 32 * 16 + i % 128 / 32 * 4;
}

// Two e4m3 scales, times 2^7, as fp16.
__device__ __forceinline__ u32 scale_pair(u32 two) { return multiply(halves_of_e4m3(two), 0x58005800u); }

// Eight e2m1 codes, times one of two scales, times 2^-7, as four pairs of fp16: values (0, 4), (1, 5), (2, 6), (3, 7).
// The code's sign, exponent and upper mantissa bit, put at fp16's, are the value times 2^-14. A sign from one shift and
// all else from another are one LOP3, and a mask for every two values comes last. Shifts to the left may be products,
// and the scale is used as it lies in its half: this spares the ALU, where an operation takes two cycles.
template <int WHICH>
__device__ __forceinline__ void decode8(u32 codes, u32 scales, u32* pairs) {
  constexpr u32 SIGNS = 0x80808080u, OURS = 0x8e008e00u;
  const u32 even = choose(SIGNS, codes << 4, codes << 1), odd = choose(SIGNS, codes, codes >> 3);
  pairs[0] = multiply_by_one_of<WHICH>((even << 8) & OURS, scales);
  pairs[1] = multiply_by_one_of<WHICH>((odd << 8) & OURS, scales);
  pairs[2] = multiply_by_one_of<WHICH>(even & OURS, scales);
  pairs[3] = multiply_by_one_of<WHICH>(odd & OURS, scales);
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

// HELPED, each tile is a block's own, which sums up its first `each` chunks and adds what a helper left of the rest.
// A helper has the rests of `more` tiles. It is done with most of them long before they are needed, and no tile's sums
// go two ways.
__device__ __forceinline__ Range helped_range(const Shares& s, int all, int tiles) {
  const int block = blockIdx.x, first = (block - tiles) * s.more, last = min(first + s.more, tiles);
  if (block < tiles) return {block * all, block * all + s.each};
  return {first * all + s.each, last * all, s.each, last - first - 1};
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

// The first copies are on their way by now, which take all a while to work out. The barriers are dealt to the
// producers' warps, as the threads of a warp would initialize theirs one after the other.
__device__ __forceinline__ void prepare_barriers(u32 base) {
  constexpr int WARPS = PRODUCERS / 32;
  const int warp = threadIdx.x / 32;
  if (warp < WARPS && threadIdx.x % 32 == 0) {
#pragma unroll
    for (int i = 0; i < 2 * A_STAGES; i += WARPS)  // full, and empty
      if (i + warp < 2 * A_STAGES)
        barrier_init(base + AT_BARRIERS + 8 * (i + warp), i + warp < A_STAGES ? STAGE_WARPS : CONSUMERS / 32);
#pragma unroll
    for (int i = 0; i < RAW_STAGES; i += WARPS)
      if (i + warp < RAW_STAGES) barrier_init(base + AT_RAW_FULL + 8 * (i + warp), CONSUMERS);
    if (S > 1 && warp == WARPS - 1) {
      barrier_init(base + AT_RECEIVED, 1);
      barrier_expect(base + AT_RECEIVED, RECEIVED_BYTES);
    }
    barriers_ready();
  }
  __syncthreads();
  if (APART) cluster_arrive();
}

// Producers: a thread decodes half of a token's row of a chunk. Of the two warpgroups each has a half of the chunk, or,
// MIXED, each warp both halves of 16 rows. Lanes are dealt to rows so that they share no banks, but when 16 of them
// read the same halves of pieces. No barrier says that a slot has been read: consumers copy to it when they have waited
// for the chunk to be decoded. The tile isn't needed; without it nvcc deals out registers otherwise than in what was
// timed.
__device__ __forceinline__ void produce(u32 base, Range r, const Tile&) {
  prepare_barriers(base);
  const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int half = MIXED ? lane / 8 % 2 : group;
  const int row = warp * 8 + lane % 8 + (MIXED ? lane / 16 * 32 + group * 64 : lane / 8 * 32);
  const u32 raw_at = base + AT_RAW_A + row * 64 + row / 2 % 4 * 16 + half * 8;
  const u32 codes_at = base + AT_RAW_SFA + row % 32 * 16 + row / 32 * 4;
  const u32 to = base + row * 128 + row % 8 * 16 + half * A_BYTES;
  // 128-byte swizzle. In the first order the ALU has less to do, but there are more registers.
  auto place = [&](int i, int stage) {
    return MI == 1 ? (to ^ i * 16) + stage * A_BYTES : (to + stage * A_BYTES) ^ i * 16;
  };
  const u32 barriers = base + AT_BARRIERS + (MIXED ? 0 : 8 * half);
  int slot = 0, next_stage = 0;  // the chunk's first
  u32 parity = 1, raw_parity = 0;
  int left = r.chunks();
#pragma unroll 1
  while (left > 0) {
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn, --left) {
      if (turn && left == 0) break;
      barrier_wait(base + AT_RAW_FULL + 8 * slot, raw_parity);
      uint2 raw[4];
      u32 scales[2];
#pragma unroll
      for (int q = 0; q < 4; ++q) raw[q] = load8((raw_at + slot * RAW_A_BYTES) ^ q * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const u32 codes = load4(codes_at + slot * RAW_SFA_BYTES + i * 512);
        scales[i] = scale_pair(__byte_perm(codes, 0, half ? 0x4431 : 0x4420));
      }
      const int stage = UNROLLED ? 2 * turn : next_stage;
      const u32 barrier = barriers + 8 * stage;
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        u32 pairs[4][4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const u32 codes = word ? raw[q].y : raw[q].x;
          if (q % 2) decode8<1>(codes, scales[q / 2], pairs[q]);
          else decode8<0>(codes, scales[q / 2], pairs[q]);
        }
        if (word == 0) {
          barrier_wait(barrier + 8 * A_STAGES, parity);
          if (MIXED) barrier_wait(barrier + 8 * A_STAGES + 8, parity);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
          store16(place(4 * word + i, stage), pairs[0][i], pairs[1][i], pairs[2][i], pairs[3][i]);
      }
      show_to_tensor_cores();
      __syncwarp();
      if (lane < 1 + MIXED) barrier_arrive(barrier + 8 * lane);
      if (UNROLLED ? turn == TURNS - 1 : (next_stage += 2) >= A_STAGES) {
        next_stage = 0;
        parity ^= 1;
      }
      if (++slot == RAW_STAGES) {
        slot = 0;
        raw_parity ^= 1;
      }
    }
  }
}

// Where wgmma finds N rows of 128 swizzled bytes.
__device__ __forceinline__ u64 descriptor(u32 address) {
  return (u64)1 << 62 | (u64)64 << 32 | (u64)1 << 16 | (address >> 4);
}

// Consumers: a thread decodes the weights that wgmma expects in its registers, and copies activations for the producers
// besides. `done` is told of what was summed up, by its first chunk: of all, or of a tile's. The pipeline runs on
// meanwhile, and over the borders of tiles.
template <class Find, class Done>
__device__ __forceinline__ void consume(
    u32 base, Range r, const Find& find, const Shares& s, float (&sum)[MI][N / 2], const Done& done) {
  const u32 full = base + AT_BARRIERS, empty = full + 8 * A_STAGES;
  const int thread = threadIdx.x - PRODUCERS, group = thread / 128, warp = thread % 128 / 32, lane = thread % 32;
  int next = r.begin, of_tile = 0;  // to copy; and how many are left of the tile, with it
  Tile t;
  u32 value[PIECES], scale[PIECES];
  const u32 raw_at = base + AT_RAW_B + thread * 16, codes_at = base + AT_RAW_SFB + thread * 4;
  // Of activations, 16 bytes of two rows, 64 apart, and four bytes of scales. A warp has eight rows: one thread a row
  // would ask for 32 rows at once. The pieces of a row are swizzled, for producers to share no banks.
  const u32 row_a = thread / 4, raw_a_to = base + AT_RAW_A + row_a * 64 + (thread ^ row_a / 2) % 4 * 16;
  const u8 *value_a, *scale_a;
  u32 apart_a;
  bool valid_a[2];
  auto place = [&] {
    t = find(next);
    const int tokens = t.m - t.token;
    const u8* rows = t.a + (u64)t.token * (t.k / 2) + t.chunk * 64 + thread % 4 * 16;
    valid_a[0] = (int)row_a < tokens, valid_a[1] = (int)row_a + 64 < tokens;
    value_a = rows + (valid_a[0] ? row_a : 0) * (u64)(t.k / 2);
    apart_a = valid_a[1] ? 64 * (t.k / 2) : 0;
    scale_a = t.sfa + scale_place(t.token, 8 * t.chunk, t.k) + thread * 4;
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
  auto fetch = [&](int slot, bool first = false) {
    if (next < r.end) {
      if (STREAM && of_tile <= 0) place();
      copy16(raw_a_to + slot * RAW_A_BYTES, value_a, valid_a[0]);
      copy16(raw_a_to + slot * RAW_A_BYTES + 64 * 64, value_a + apart_a, valid_a[1]);
      copy4(base + AT_RAW_SFA + slot * RAW_SFA_BYTES + thread * 4, scale_a);
      if (first) prepare_barriers(base);
      arrive_after_copies(base + AT_RAW_FULL + 8 * slot);
      value_a += 64;
      scale_a += 1024;
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const int which = DUAL * (p % 2);
        copy16(raw_at + slot * RAW_B_BYTES + p * CONSUMERS * 16, t.b[which] + value[p], true);
        copy4(codes_at + slot * RAW_SFB_BYTES + p * CONSUMERS * 4, t.sfb[which] + scale[p]);
        value[p] += 64;
        scale[p] += 1024;
      }
      ++next;
      if (STREAM && --of_tile == 0) next += r.skip;
    }
    commit_copies();
  };
  fetch(0, true);
#pragma unroll 1
  for (int i = 1; i < RAW_STAGES; ++i) fetch(i);
  if (STREAM && !HELPED) {
    if (thread < 2) keep_teams(base, thread, r, find, s);
    sync_consumers();  // who all need the teams
  }

  // Half a chunk, or with MI = 2 for want of registers a quarter, is decoded at a time; what it became stays in
  // registers until wgmma has read it, so there are two sets of them, and the next one is decoded while the tensor
  // cores work on the last.
  constexpr int PARTS = MI, STEPS = 4 / PARTS;  // of half a chunk; and of 16 values of k, of a part
  u32 operand[2][MI][4 * STEPS];
  uint4 raw[PIECES];
  u32 codes[PIECES];
  auto load = [&](int slot) {
    await_copies<RAW_STAGES - 1>();
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      raw[p] = load16(raw_at + slot * RAW_B_BYTES + p * CONSUMERS * 16);
      codes[p] = load4(codes_at + slot * RAW_SFB_BYTES + p * CONSUMERS * 4);
    }
  };
  load(0);
  int slot = 0, next_stage = 0, last_stage = 0;
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
    while (chunk < stop) {
#pragma unroll
      for (int turn = 0; turn < TURNS; ++turn, ++chunk) {
        if (turn && chunk == stop) break;
        u32 scales[PIECES];
#pragma unroll
        for (int p = 0; p < PIECES; ++p) scales[p] = scale_pair(codes[p] >> 16 * (lane & 1));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int stage = UNROLLED ? 2 * turn + half : next_stage;
          const int previous = UNROLLED ? (stage + A_STAGES - 1) % A_STAGES : last_stage;
#pragma unroll
          for (int part = 0; part < PARTS; ++part) {
            auto& now = operand[PARTS == 1 ? half : part];
#pragma unroll
            for (int p = 0; p < PIECES; ++p) {
              u32 pairs[8];
              auto decode = [&](u32 codes, u32* pairs) {
                if (half) decode8<1>(codes, scales[p], pairs);
                else decode8<0>(codes, scales[p], pairs);
              };
              if (PARTS == 1 || part == 0) decode(half ? raw[p].z : raw[p].x, pairs);
              if (PARTS == 1 || part == 1) decode(half ? raw[p].w : raw[p].y, pairs + (PARTS == 1 ? 4 : 0));
#pragma unroll
              for (int e = 0; e < 2 * STEPS; ++e) now[p / 2][e / 2 * 4 + p % 2 + e % 2 * 2] = pairs[e];
            }
            if (part == 0) barrier_wait(full + 8 * stage, parity);
            products_begin();
            const u64 b = descriptor(base + stage * A_BYTES) + 2 * STEPS * part;
#pragma unroll
            for (int s = 0; s < STEPS; ++s)
#pragma unroll
              for (int i = 0; i < MI; ++i) wgmma(sum[i], now[i] + 4 * s, b + 2 * s);
            products_commit();
            if (half && part == PARTS - 1) {  // all is decoded: what comes next is read while the tensor cores work
              fetch(slot);
              if (++slot == RAW_STAGES) slot = 0;
              load(slot);
            }
            products_wait<1>();
            if (part == 0 && (half || chunk > r.begin) && lane == 0) barrier_arrive(empty + 8 * previous);
          }
          last_stage = stage;
          if (UNROLLED ? stage == A_STAGES - 1 : ++next_stage == A_STAGES) {
            next_stage = 0;
            parity ^= 1;
          }
        }
      }
    }
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < N / 2; ++j) pin(sum[i][j]);
    done(now, start);
    chunk += r.skip;
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
    const u32 to = address_in(base + AT_SUMS + ((MINE - (MINE > other)) * SLICE * MI * CONSUMERS + thread) * 16, other);
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
        uint4 v = load16(base + AT_SUMS + (((other * MI + i) * SLICE + j) * CONSUMERS + thread) * 16);
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
  if constexpr (HELPED) {  // a tile's counter is 1 from when its helper is done until its own block has seen it
    const int tile = start / t.chunks;
    const Team team = {tile, 2, 0, 0, r.skip ? 0 : UNITS, 0};
    if (r.skip) leave(team, workspace.part(tile + 1, false), sum);
    else if (first) await_count(counter_of(team, workspace), 1);
    sync_consumers();
    if (first && r.skip) publish();
    if (first) count(counter_of(team, workspace), 1);
    if (!r.skip) add_up(base, t, team, workspace, sum);
    return;
  }
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
  // All of 512 threads' 128 registers, dealt out so that nothing is spilled.
  constexpr int FEWER = MI == 1 ? 72 : STREAM ? 40 : 48, MORE = 256 - FEWER;
  if (threadIdx.x < PRODUCERS) {
    fewer_registers<FEWER>();
    produce(base, r, find(r.begin));
    if constexpr (APART) cluster_wait();
    else if constexpr (S > 1) cluster_sync();
  } else {
    more_registers<MORE>();
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
      if constexpr (APART) cluster_wait();  // long since: the other block has its barrier
      else cluster_sync();  // shared memory is free for sums, everywhere
      if (rank == 0) send<0>(base, sum);
      if (rank == 1) send<1>(base, sum);
      if constexpr (S > 2) {
        if (rank == 2) send<2>(base, sum);
        if (rank == 3) send<3>(base, sum);
      }
      if constexpr (APART) sync_consumers();  // shared memory is free for C
      barrier_wait(base + AT_RECEIVED, 0);
      if (rank == 0) receive<0>(base, sum, slice);
      if (rank == 1) receive<1>(base, sum, slice);
      if constexpr (S > 2) {
        if (rank == 2) receive<2>(base, sum, slice);
        if (rank == 3) receive<3>(base, sum, slice);
      }
      store_tile<N / S>(base + (APART ? 0 : RECEIVED_BYTES), t, t.token + rank * (N / S), slice);
    }
  }
}
"""

KERNEL = r"""
extern "C" __global__ void CLUSTER __launch_bounds__(PRODUCERS + CONSUMERS, 1) nvfp4_dual_gemm(
    const u8* a, const u8* b, const u8* b2, const u8* sfa, const u8* sfb, const u8* sfb2, u16* c,
    u32* counters, float* parts, int m, int n, int k, int each, int more) {
  extern __shared__ u8 shared[];
  const int across = (n + COLUMNS - 1) / COLUMNS, all = k / 128;
  auto find = [&](int chunk) -> Tile {
    const int item = STREAM ? chunk / all : blockIdx.x / S;
    int down = 0;
    if (item >= across) down = item / across;  // a division takes its time, and most begin without
    return {a, sfa, {b, b2}, {sfb, sfb2}, c, m, n, k,
            down * N, (item - down * across) * COLUMNS, chunk - item * all, all};
  };
  const Shares s = {each, more};
  const Range r = HELPED ? helped_range(s, all, across * ((m + N - 1) / N)) : range_of(s, all);
  run(shared_address(shared), r, find, s, {counters, parts});
}
"""


STREAM_BYTES = 64 + 2 * 2 * 32 * ((32 if DUAL else 64) + 8) * 2  # teams, and units on their way to C
COUNTERS_APART = 32  # as in the kernel


class Config(NamedTuple):
    """Constants of the kernel."""

    mi: int  # 64-row blocks of weights of a warpgroup; a tile has 128·mi rows
    split: int  # blocks of a cluster, each with a part of k
    a_stages: int  # of 64 values of k of activations, decoded; even, as a chunk is two
    raw_stages: int = 4  # of a chunk, 128 values of k, as it came
    stream: int = 0  # stream-K, with a split of 1: all tiles' chunks dealt out evenly to as many blocks as can run
    helped: int = 0  # stream-K where tiles have a block of their own, and helpers the rests
    mixed: int = 0  # the two warpgroups of producers share each half of a chunk; else each has one
    unrolled: int = 0  # an iteration is as many chunks as there are stages for; narrow tiles, no stream-K
    apart: int = 0  # a cluster of two exchanges sums in memory of its own

    @property
    def columns(self) -> int:
        """Columns of C of a tile."""
        return 128 * self.mi >> DUAL

    @property
    def shared_bytes(self) -> int:
        a = self.a_stages * TOKENS * 128
        raw = self.raw_stages * (128 * (64 + 8) + 2 * self.mi * 256 * (16 + 4))
        barriers = self.a_stages * 16 + 16 + -(-self.raw_stages // 2) * 16
        sums = (self.split - 1) * TOKENS // self.split * 128 * self.mi * 4
        c = TOKENS // self.split * (self.columns + 8) * 2
        if self.stream:
            return a + raw + barriers + STREAM_BYTES + 1024
        if self.apart:
            return a + raw + barriers + 64 + sums + 1024
        return max(a + raw + barriers, sums + c) + 1024

    @property
    def part_bytes(self) -> int:
        """A block's fp32 sums of a tile."""
        return TOKENS * 128 * self.mi * 4

    def tiles(self, m: int, n: int) -> int:
        """Of C [m, n]."""
        return -(-m // TOKENS) * -(-n // self.columns)

    def fits(self, tiles: int, chunks: int, multiprocessors: int) -> bool:
        """Whether there may be so many tiles, of so many chunks or more each."""
        return self.split <= chunks and not (self.helped and (tiles >= multiprocessors or chunks < 2))

    def deal(self, tiles: int, chunks: int, multiprocessors: int) -> tuple[int, int, int]:
        """Blocks, and the kernel's `each` and `more`, for so many tiles of so many chunks in all."""
        if self.helped:
            chunks //= tiles
            helped = -(-tiles // (multiprocessors - tiles))  # tiles, by one helper
            own = min(chunks - 1, -(-(helped * chunks + HELPERS_AHEAD) // (helped + 1)))
            return tiles + -(-tiles // helped), own, helped
        blocks = tiles * self.split
        if self.stream:  # no more than the longest share needs: the fewer tiles are divided
            blocks = -(-chunks // -(-chunks // multiprocessors))
        return blocks, *divmod(chunks, blocks)

    @property
    def source(self) -> str:
        constants = f"MI = {self.mi}, N = {TOKENS}, S = {self.split}, STREAM = {self.stream}, DUAL = {DUAL}"
        constants += f", HELPED = {self.helped}, MIXED = {self.mixed}, UNROLLED = {self.unrolled}, APART = {self.apart}"
        constants += f", A_STAGES = {self.a_stages}, RAW_STAGES = {self.raw_stages}"
        kernel = KERNEL.replace("CLUSTER", f"__cluster_dims__({self.split}, 1, 1)" if self.split > 1 else "")
        return f"{TYPES}constexpr int {constants};\n{PRIMITIVES}{wgmma()}{PIPELINE}{kernel}"


# A helper has so many chunks less to do than the blocks that it helps, since it has the sums of several tiles to leave:
# so it is done when they are needed, and nobody waits. Of 96 tiles of 56 chunks on 132 multiprocessors, a block does 43
# of its own tile's, and a helper 13 of each of three.
HELPERS_AHEAD = 4

# Wide tiles leave less of the shared memory to stages.
NARROW, WIDE = Config(1, 1, a_stages=6), Config(2, 1, a_stages=4)
CONFIGS = [
    NARROW._replace(mixed=1),
    NARROW._replace(split=2, mixed=1, unrolled=1, apart=1),
    NARROW._replace(stream=1),
    WIDE,
    WIDE._replace(split=2),
    WIDE._replace(split=4),
    WIDE._replace(stream=1),
    NARROW._replace(stream=1, helped=1),
    WIDE._replace(stream=1, helped=1, a_stages=6, raw_stages=3),
]

# A fit to what an H200 took on all three boards, in µs: a chunk of 128 values of k, by mi; all else in the life of a
# block, by split; the launch; stream-K's exchange of sums, times mi, since there are so many, for every tile that a
# block has to do with. Where there are helpers: what they take to leave a tile's sums, times mi, and what the tile's
# block takes to add them. Clusters of four don't fill the card: 28 of them ran at once. The least estimate of each
# benchmark case is that of the configuration that was fastest. Estimates are off by 5 % in root mean square, by 13 % at
# most.
CHUNK_US, BLOCK_US, LAUNCH_US, FINISH_US = {1: 0.89, 2: 1.54}, {1: 1.9, 2: 3.4, 4: 5.9}, 4.5, 3.4
LEAVE_US, ADD_US = 1.3, 1.7


def estimate_us(config: Config, tiles: int, chunks: float, multiprocessors: int) -> float:
    """Of so many tiles, of so many chunks each on average."""
    chunk = CHUNK_US[config.mi]
    if config.helped:
        _, own, helped = config.deal(tiles, round(tiles * chunks), multiprocessors)
        rests = helped * ((chunks - own) * chunk + LEAVE_US * config.mi)
        return max(own * chunk, rests) + ADD_US + BLOCK_US[1] + LAUNCH_US
    if config.stream:
        longest = -(-round(tiles * chunks) // multiprocessors)
        finishing = -(-longest // chunks) * FINISH_US * config.mi
        return longest * chunk + finishing + BLOCK_US[1] + LAUNCH_US
    at_once = multiprocessors * 28 // 132 * 4 if config.split == 4 else multiprocessors
    waves = -(-tiles * config.split // at_once)
    return waves * (-(-chunks // config.split) * chunk + BLOCK_US[config.split]) + LAUNCH_US


@functools.cache
def kernel(config: Config):
    """The kernel, compiled for Hopper."""
    compiled = torch.cuda._compile_kernel(config.source, "nvfp4_dual_gemm", compute_capability="90a")
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


def usable(m: int, n: int, k: int, multiprocessors: int) -> list[Config]:
    return [c for c in CONFIGS if c.fits(c.tiles(m, n), k // 128, multiprocessors)]


@functools.cache
def plan(m: int, n: int, k: int, multiprocessors: int) -> Config:
    def cost(config: Config) -> float:
        return estimate_us(config, config.tiles(m, n), k // 128, multiprocessors)

    return min(usable(m, n, k, multiprocessors), key=cost)


def launch(config: Config, a, b1, b2, sfa, sfb1, sfb2, c) -> None:
    """a [m, k/2], b1 and b2 [n, k/2], their reordered scales, c [m, n]; all contiguous but for the scales' order."""
    (m, n), k = c.shape, 2 * a.shape[1]
    tiles = config.tiles(m, n)
    blocks, each, more = config.deal(tiles, tiles * (k // 128), multiprocessors(c.device))
    arguments = [a, b1, b2, sfa, sfb1, sfb2, c, *workspace_here(c.device, config), m, n, k, each, more]
    kernel(config)((blocks, 1, 1), (THREADS, 1, 1), arguments, shared_mem=config.shared_bytes)


def custom_kernel(data: input_t) -> output_t:
    a, b1, b2, _, _, _, sfa, sfb1, sfb2, c = data
    m, n, batch = c.shape
    k = 2 * a.shape[1]
    check(n, k)
    config = plan(m, n, k, multiprocessors(c.device))
    for i in range(batch):
        launch(config, *(x[..., i] for x in (a, b1, b2, sfa, sfb1, sfb2, c)))
    return c
