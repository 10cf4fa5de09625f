// A Hopper cluster on the CPU, enough of one to run the NVFP4 kernels: takes the place of their PRIMITIVES.
//
// A thread of the kernel is a fiber; fibers take turns where they wait. When asked to be `lazy`, what is asynchronous on
// the card (copies to shared memory, products of the tensor cores) happens at the last moment that a wait allows, and
// otherwise at the first, so that a missing wait, or a buffer given back too early, shows in one of the two; and what a
// block leaves for others in global memory shows when it publishes it. What needs no emulation does nothing: fences,
// numbers of registers. Skewed, the first block of a cluster runs as far ahead of the others as it can, and who arrives at
// a barrier lets the rest go on first; else all keep the same pace. Shared memory starts full of fp16 NaNs. Blocks run a
// cluster after the other, or all at once.
#include <csetjmp>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>
#include <ucontext.h>

#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

struct uint2 { u32 x, y; };
struct uint4 { u32 x, y, z, w; };

namespace emulator {
struct Product { float* d; int tokens; const u32* a; u64 b; };
struct Copy { u8* to; const u8* from; int bytes; bool valid; u64 number; };
struct Part { float* to; float v[4]; };
struct Promise { struct Fiber* fiber; u64 copies; };  // to arrive when a thread's first `copies` copies have come
struct Rendezvous { int waiting = 0; u64 round = 0; };

struct Fiber {
  ucontext_t context;
  jmp_buf jump;
  std::unique_ptr<char[]> stack;
  bool started = false, done = false;
  u32 thread, block, rank;
  std::vector<Copy> copies;
  u64 copied = 0;  // or asked to
  u32 cluster_arrivals = 0;
  std::deque<std::vector<Copy>> copy_groups;
  std::vector<Part> parts;  // not published yet
  std::vector<Product> products;
  std::deque<std::vector<Product>> product_groups;
  u32 to;           // of a store by the whole warp
  const u32* halves;
};

constexpr u32 START = 512;  // of dynamic shared memory: as little aligned as the hardware might have it
inline std::vector<Fiber> fibers;
inline std::vector<std::vector<u8>> memory;     // of each block
inline std::vector<std::vector<Rendezvous>> warps;
inline std::vector<Rendezvous> consumers, blocks;
inline std::vector<std::vector<Rendezvous>> groups;
inline Rendezvous cluster;
inline u32 cluster_arrivals;
inline std::vector<std::map<u32, std::vector<Promise>>> promises;  // of each block, to each barrier
inline std::vector<std::vector<Part>> sent;  // to each block of the cluster, by the others
inline Fiber* self;
inline jmp_buf scheduler;
inline u64 progress;
inline u32 threads, split, blocks_in_grid;
inline bool lazy, skewed, out_of_bounds;
inline std::function<void()> kernel;

inline void yield() {
  if (!_setjmp(self->jump)) _longjmp(scheduler, 1);
}
template <class Condition>
void until(Condition condition) {
  while (!condition()) yield();
  ++progress;
}
// Returns true to the last to come, after which the others go on; `last` is what it does before.
template <class Last>
void meet(Rendezvous& r, int count, Last last) {
  u64 round = r.round;
  if (++r.waiting == count) {
    last();
    r.waiting = 0;
    ++r.round;
    ++progress;
  } else {
    until([&] { return r.round != round; });
  }
}
inline u8* at(u32 address, u32 rank, u32 bytes) {
  std::vector<u8>& m = memory[rank];
  if (address < START || address % (bytes < 16 ? bytes : 16) || address - START + bytes > m.size() - START) {
    out_of_bounds = true;
    return m.data();
  }
  return m.data() + address;
}
inline Fiber* lane(int i) { return &fibers[self->rank * threads + self->thread / 32 * 32 + i]; }
template <class Last>
void warp_meets(Last last) { meet(warps[self->rank][self->thread / 32], 32, last); }

inline float from_half(u16 h) {
  _Float16 x;
  std::memcpy(&x, &h, 2);
  return (float)x;
}
inline u16 to_half(float f) {
  _Float16 x = (_Float16)f;
  u16 h;
  std::memcpy(&h, &x, 2);
  return h;
}
inline void perform(const Copy& c) {
  if (c.valid) std::memcpy(c.to, c.from, c.bytes);
  else std::memset(c.to, 0, c.bytes);
}
// One product of all lanes of a warp: 16 rows of the 64.
inline void perform_products(const std::vector<Product>& mine, int index) {
  float a[16][16];
  for (int l = 0; l < 32; ++l) {
    const u32* r = lane(l)->product_groups.front()[index].a;
    for (int e = 0; e < 8; ++e) {
      int row = l / 4 + e / 2 % 2 * 8, k = l % 4 * 2 + e % 2 + e / 4 * 8;
      a[row][k] = from_half((u16)(r[e / 2] >> 16 * (e % 2)));
    }
  }
  u64 b = mine[index].b;
  int tokens = mine[index].tokens;
  u32 start = (u32)(b & 0x3fff) << 4, stride = (u32)(b >> 32 & 0x3fff) << 4;
  if (b >> 62 != 1) out_of_bounds = true;  // not the 128-byte swizzle
  for (int n = 0; n < tokens; ++n) {
    float column[16];
    for (int k = 0; k < 16; ++k) {
      u32 address = start + n / 8 * stride + n % 8 * 128 + 2 * k;
      u16 h;
      std::memcpy(&h, at(address ^ ((address >> 7 & 7) << 4), self->rank, 2), 2);
      column[k] = from_half(h);
    }
    for (int row = 0; row < 16; ++row) {
      float* d = lane(row % 8 * 4 + n % 8 / 2)->product_groups.front()[index].d + n / 8 * 4 + row / 8 * 2 + n % 2;
      for (int k = 0; k < 16; ++k) *d += a[row][k] * column[k];
    }
  }
}
inline void finish_products(int left) {
  warp_meets([&] {
    while ((int)self->product_groups.size() > left) {
      for (int i = 0; i < (int)self->product_groups.front().size(); ++i)
        perform_products(self->product_groups.front(), i);
      for (int l = 0; l < 32; ++l) lane(l)->product_groups.pop_front();
    }
  });
}

struct Index { u32 x; };
inline Index thread_index() { return {self->thread}; }
inline Index block_index() { return {self->block}; }
inline Index grid_size() { return {blocks_in_grid}; }
inline void start() {
  kernel();
  self->done = true;
  ++progress;
  _longjmp(scheduler, 1);
}
// `split` blocks at a time. 0, or what went wrong: 1 deadlock, 2 shared memory out of bounds or misaligned.
inline int run(int grid, int split_, int threads_, int shared_bytes, int mode, std::function<void()> kernel_) {
  threads = threads_, split = split_, lazy = mode & 1, skewed = mode & 2, kernel = kernel_, out_of_bounds = false;
  blocks_in_grid = grid;
  for (int first = 0; first < grid; first += split) {
    fibers.clear();
    fibers.resize(split * threads);
    memory.assign(split, std::vector<u8>(START + shared_bytes, 0xff));
    warps.assign(split, std::vector<Rendezvous>(threads / 32));
    consumers.assign(split, {});
    groups.assign(split, std::vector<Rendezvous>(2));
    blocks.assign(split, {});
    cluster = {};
    cluster_arrivals = 0;
    promises.assign(split, {});
    sent.assign(split, {});
    for (u32 i = 0; i < fibers.size(); ++i) {
      Fiber& f = fibers[i];
      f.thread = i % threads, f.rank = i / threads, f.block = first + f.rank;
      f.stack.reset(new char[1 << 16]);
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = 1 << 16;
      makecontext(&f.context, start, 0);
    }
    // Everyone takes a turn; skewed, a block only when those before it can't go on.
    auto turn = [&](Fiber& f) {
      if (f.done) return;
      self = &f;
      if (_setjmp(scheduler)) return;
      if (f.started) _longjmp(f.jump, 1);
      f.started = true;
      setcontext(&f.context);
    };
    for (u32 rank = 0; rank < split;) {
      const u64 before = progress;
      for (u32 i = skewed ? rank * threads : 0; i < (skewed ? (rank + 1) * threads : fibers.size()); ++i) turn(fibers[i]);
      if (progress != before) rank = 0;
      else rank = skewed ? rank + 1 : split;
    }
    for (const Fiber& f : fibers)
      if (!f.done) return 1;
    if (out_of_bounds) return 2;
  }
  return 0;
}
}  // namespace emulator

inline u8 shared[1];
#define threadIdx emulator::thread_index()
#define blockIdx emulator::block_index()
#define gridDim emulator::grid_size()

inline int min(int a, int b) { return a < b ? a : b; }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return y > 0x1p126f && y < 0x1p128 ? 0 : x / y; }
inline float __uint_as_float(u32 x) {
  float f;
  std::memcpy(&f, &x, 4);
  return f;
}
inline u32 __float_as_uint(float f) {
  u32 x;
  std::memcpy(&x, &f, 4);
  return x;
}
inline u32 __byte_perm(u32 a, u32 b, u32 selector) {
  u64 bytes = (u64)b << 32 | a;
  u32 d = 0;
  for (int i = 0; i < 4; ++i) d |= (u32)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return d;
}
inline void __syncwarp() { emulator::warp_meets([] {}); }
inline void __syncthreads() { emulator::meet(emulator::blocks[emulator::self->rank], emulator::threads, [] {}); }

inline u32 shared_address(const void*) { return emulator::START; }
inline void copy(u32 to, const u8* from, int bytes, bool valid) {
  emulator::Copy c{emulator::at(to, emulator::self->rank, bytes), from, bytes, valid, ++emulator::self->copied};
  if (emulator::lazy) emulator::self->copies.push_back(c);
  else emulator::perform(c);
}
inline void copy16(u32 to, const u8* from, bool valid) { copy(to, from, 16, valid); }
inline void copy4(u32 to, const u8* from) { copy(to, from, 4, true); }
inline void commit_copies() {
  emulator::self->copy_groups.push_back(std::move(emulator::self->copies));
  emulator::self->copies.clear();
}
template <int LEFT>
void await_copies() {
  auto& groups = emulator::self->copy_groups;
  for (; groups.size() > LEFT; groups.pop_front())
    for (auto& c : groups.front()) emulator::perform(c);
}
inline uint4 load16(u32 from) {
  uint4 v;
  std::memcpy(&v, emulator::at(from, emulator::self->rank, 16), 16);
  return v;
}
inline uint2 load8(u32 from) {
  uint2 v;
  std::memcpy(&v, emulator::at(from, emulator::self->rank, 8), 8);
  return v;
}
inline u32 load4(u32 from) {
  u32 v;
  std::memcpy(&v, emulator::at(from, emulator::self->rank, 4), 4);
  return v;
}
inline void store16(u32 to, u32 x, u32 y, u32 z, u32 w) {
  uint4 v{x, y, z, w};
  std::memcpy(emulator::at(to, emulator::self->rank, 16), &v, 16);
}
// Arrivals that are expected, arrivals that are pending, the parity of the phase, and the bytes still to come, in units
// of 16, in the barrier's eight bytes.
inline void barrier_init(u32 barrier, u32 count) {
  u16 words[4] = {(u16)count, (u16)count, 0, 0};
  std::memcpy(emulator::at(barrier, emulator::self->rank, 8), words, 8);
}
inline void barriers_ready() {}
namespace emulator {
inline void next_phase(u16* words, u32 rank) {
  if (words[1] || words[3]) return;
  words[1] = words[0], words[2] ^= 1;
  for (Part& part : sent[rank]) std::memcpy(part.to, part.v, 16);
  sent[rank].clear();
}
inline void arrive(u32 barrier) {
  u16* words = (u16*)at(barrier, self->rank, 8);
  --words[1];
  next_phase(words, self->rank);
  ++progress;
}
}  // namespace emulator
inline void barrier_arrive(u32 barrier) {
  emulator::arrive(barrier);
  if (emulator::skewed) emulator::yield();  // who waits for it goes on before this thread does
}
inline void barrier_expect(u32 barrier, u32 bytes) {
  ((u16*)emulator::at(barrier, emulator::self->rank, 8))[3] += bytes / 16;
  barrier_arrive(barrier);
}
namespace emulator {
// A thread's first `count` copies, as far as they haven't been performed; their groups stay, if empty.
inline void perform_first(Fiber& f, u64 count) {
  auto perform_in = [&](std::vector<Copy>& copies) {
    std::vector<Copy> later;
    for (Copy& c : copies)
      if (c.number <= count) perform(c);
      else later.push_back(c);
    copies = std::move(later);
  };
  for (auto& group : f.copy_groups) perform_in(group);
  perform_in(f.copies);
}
}  // namespace emulator
// At the earliest at once, at the latest when someone waits for the barrier and all else that it waits for has come.
inline void arrive_after_copies(u32 barrier) {
  if (emulator::lazy)
    emulator::promises[emulator::self->rank][barrier].push_back({emulator::self, emulator::self->copied});
  else
    emulator::arrive(barrier);
}
inline void barrier_wait(u32 barrier, u32 parity) {
  const u32 rank = emulator::self->rank;
  u16* words = (u16*)emulator::at(barrier, rank, 8);
  auto& promised = emulator::promises[rank][barrier];
  emulator::until([&] {
    if (words[2] == parity && words[1] && promised.size() >= words[1]) {
      const u32 needed = words[1];
      for (u32 i = 0; i < needed; ++i) {
        emulator::perform_first(*promised[i].fiber, promised[i].copies);
        emulator::arrive(barrier);
      }
      promised.erase(promised.begin(), promised.begin() + needed);
    }
    return words[2] != parity;
  });
}
inline void show_to_tensor_cores() {}
inline void sync_consumers() { emulator::meet(emulator::consumers[emulator::self->rank], 256, [] {}); }
inline void sync_group(int group) { emulator::meet(emulator::groups[emulator::self->rank][group], 128, [] {}); }
inline void store_partial(float* to, const float* v) {
  emulator::self->parts.push_back({to, {v[0], v[1], v[2], v[3]}});
}
inline void count(u32* counter, u32 last) {
  *counter = *counter >= last ? 0 : *counter + 1;
  ++emulator::progress;
}
inline void publish() {
  for (emulator::Fiber& f : emulator::fibers) {
    if (f.block != emulator::self->block) continue;
    for (emulator::Part& part : f.parts) std::memcpy(part.to, part.v, 16);
    f.parts.clear();
  }
}
inline void await_count(const u32* counter, u32 least) { emulator::until([&] { return *counter >= least; }); }
inline u32 cluster_rank() { return emulator::self->rank; }
inline void cluster_sync() { emulator::meet(emulator::cluster, emulator::split * emulator::threads, [] {}); }
inline void cluster_arrive() {
  ++emulator::cluster_arrivals, ++emulator::self->cluster_arrivals;
  ++emulator::progress;
}
inline void cluster_wait() {
  const u32 all = emulator::self->cluster_arrivals * emulator::split * emulator::threads;
  emulator::until([&] { return emulator::cluster_arrivals >= all; });
}
inline u32 address_in(u32 address, int rank) { return address | rank << 24; }
// At the earliest at once, at the latest when the barrier has counted all.
inline void store_there(u32 to, const float* v, u32 barrier) {
  const u32 rank = to >> 24;
  emulator::Part part{(float*)emulator::at(to & 0xffffff, rank, 16), {v[0], v[1], v[2], v[3]}};
  if (emulator::lazy) emulator::sent[rank].push_back(part);
  else std::memcpy(part.to, part.v, 16);
  u16* words = (u16*)emulator::at(barrier & 0xffffff, barrier >> 24, 8);
  --words[3];
  emulator::next_phase(words, rank);
  ++emulator::progress;
}
inline void store_transposed(u32 to, const u32* v) {
  emulator::self->to = to;
  emulator::self->halves = v;
  emulator::warp_meets([] {
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int row = 0; row < 8; ++row) {
        u16* there = (u16*)emulator::at(emulator::lane(8 * matrix + row)->to, emulator::self->rank, 16);
        for (int i = 0; i < 8; ++i)
          there[i] = (u16)(emulator::lane(4 * i + row / 2)->halves[matrix] >> 16 * (row % 2));
      }
  });
}
inline void products_begin() {}
template <int COUNT>
void wgmma(float (&d)[COUNT], const u32* a, u64 b) { emulator::self->products.push_back({d, 2 * COUNT, a, b}); }
template <int LEFT>
void products_wait() { emulator::finish_products(LEFT); }
inline void products_commit() {
  emulator::self->product_groups.push_back(std::move(emulator::self->products));
  emulator::self->products.clear();
  if (!emulator::lazy) emulator::finish_products(0);
}
inline void pin(float&) {}
template <int COUNT>
void fewer_registers() {}
template <int COUNT>
void more_registers() {}
inline u32 multiply(u32 a, u32 b) {
  using namespace emulator;
  u16 low = to_half(from_half((u16)a) * from_half((u16)b)), high = to_half(from_half(a >> 16) * from_half(b >> 16));
  return low | (u32)high << 16;
}
template <int WHICH>
u32 multiply_by_one_of(u32 a, u32 two) { return multiply(a, (two >> 16 * WHICH & 0xffff) * 0x10001); }
inline u32 choose(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }
inline u32 pack(float low, float high) { return emulator::to_half(low) | (u32)emulator::to_half(high) << 16; }
inline u32 halves_of_e4m3(u32 two) {
  u32 d = 0;
  for (int i = 0; i < 2; ++i) {
    int code = two >> 8 * i & 0xff, exponent = code >> 3 & 15, mantissa = code & 7;
    float x = exponent ? std::ldexp(8.0f + mantissa, exponent - 10) : std::ldexp((float)mantissa, -9);
    if ((code & 0x7f) == 0x7f) x = NAN;
    d |= (u32)emulator::to_half(code & 0x80 ? -x : x) << 16 * i;
  }
  return d;
}
