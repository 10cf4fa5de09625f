// The device's part of the supervisor's clock. clock.ptx beside this file is made from it by scripts/build_clock_ptx and
// is what the package loads, so that a machine needs no compiler. Word numbers as in harness/wire/words.py.

static const int ACKNOWLEDGE = 16, PONG = 32, FLUSHED = 80, DIGEST = 96;

struct Orders {  // the supervisor's words, which share a line
  int release, ping, revealed;
};

static __device__ Orders read_orders(const int *page) {
  Orders o;  // one transaction over the bus
  asm volatile("ld.volatile.global.v4.s32 {%0, %1, %2, _}, [%3];"
               : "=r"(o.release), "=r"(o.ping), "=r"(o.revealed)
               : "l"(page)
               : "memory");
  return o;
}

// Waits until the order that `which` picks has the call's number, echoing pings meanwhile.
template <typename Which>
static __device__ void await_order(int *page, int call, int &echoed, Which which) {
  volatile int *words = page;
  for (Orders now = read_orders(page); which(now) != call; now = read_orders(page)) {
    if (now.ping != echoed) {
      words[PONG] = echoed = now.ping;
      __threadfence_system();
    }
  }
}

static __device__ void tell(volatile int *word, int call) {
  *word = call;
  __threadfence_system();
}

struct State {  // in device memory, zero before the first call
  int arrived, flushed;
  volatile int revealed, released;  // the orders, passed on by the one block that reads them
};

// Fills every thread slot of the device and holds it until the supervisor releases the call. Only the last block to
// arrive polls host memory (hundreds of pollers over the bus cost milliseconds); the others wait on device memory.
// Between the reveal of the input and the release all blocks together read `flush`, twice the size of the L2, so that
// the input is in memory only and the L2 holds nothing that has yet to be written back.
extern "C" __global__ void gate(int *page, int call, State *state, const int4 *flush, int flush_vectors, int blocks) {
  __shared__ int poller;
  int echoed = 0;
  if (threadIdx.x == 0) {
    poller = atomicAdd(&state->arrived, 1) == blocks - 1;  // the device is full: nothing else can be running
    if (poller) {
      state->arrived = 0;
      tell(page + ACKNOWLEDGE, call);
      await_order(page, call, echoed, [](Orders o) { return o.revealed; });
      state->revealed = call;
      __threadfence();
    } else {
      while (state->revealed != call) __nanosleep(100);
    }
  }
  __syncthreads();

  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < flush_vectors; i += gridDim.x * blockDim.x) {
    int4 v = __ldcg(flush + i);
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x7fffffff && call < 0) page[FLUSHED] = sum;  // never true: keeps the loads
  __syncthreads();

  if (threadIdx.x == 0) {
    if (atomicAdd(&state->flushed, 1) == blocks - 1) {
      state->flushed = 0;
      tell(page + FLUSHED, call);
    }
    if (poller) {
      await_order(page, call, echoed, [](Orders o) { return o.release; });
      state->released = call;
      __threadfence();
    } else {
      while (state->released != call) __nanosleep(100);
    }
  }
  __syncthreads();
}

// Tells the supervisor that everything before it in the stream has ended.
extern "C" __global__ void mark(volatile int *word, int call) {
  __threadfence_system();
  tell(word, call);
}

// The digest of an output, 96 bits over every byte of it. Words that may be chosen freely can steer it: docs/trust.md.
//
// It is built on the permutation of Chaskey (Mouha et al., "Chaskey: An Efficient MAC Algorithm for 32-bit
// Microcontrollers", 2014), 128 bits wide, four of its rounds: whoever wants another output of a digest told before has
// a millisecond to find it, and the last bits of values that a check tolerates to choose from. It is a tree of hashes
// and no sum of them, since the terms of a sum can be chosen to make it what is wanted.

struct __align__(16) Word {
  unsigned v[4];
};

static __device__ unsigned rotate(unsigned x, int by) { return __funnelshift_l(x, x, by); }

// The compression of one word into a running hash: the permutation of their difference, which is added again so that
// it can't be run backwards.
static __device__ Word absorb(Word h, Word w) {
  unsigned x[4];
  for (int i = 0; i < 4; i++) x[i] = h.v[i] ^ w.v[i];
  unsigned a = x[0], b = x[1], c = x[2], d = x[3];
#pragma unroll
  for (int round = 0; round < 4; round++) {
    a += b, b = rotate(b, 5) ^ a, a = rotate(a, 16);
    c += d, d = rotate(d, 8) ^ c;
    a += d, d = rotate(d, 13) ^ a;
    c += b, b = rotate(b, 7) ^ c, c = rotate(c, 16);
  }
  return {{a ^ x[0], b ^ x[1], c ^ x[2], d ^ x[3]}};
}

static __device__ Word load_word(const void *at) {
  Word w;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.v[0]), "=r"(w.v[1]), "=r"(w.v[2]), "=r"(w.v[3])
               : "l"(at)
               : "memory");
  return w;
}

static __device__ Word load_tail(const unsigned char *at, int bytes) {
  Word w = {{0, 0, 0, 0}};
#pragma unroll
  for (int i = 0; i < 15; i++) {
    if (i < bytes) w.v[i / 4] |= (unsigned)__ldcg(at + i) << (8 * (i % 4));
  }
  return w;
}

static const int LANES = 256;  // threads of a block, whose hashes are joined in pairs

// The root over the first `lanes` threads' hashes, a power of two.
static __device__ Word joined(Word mine, int lanes) {
  __shared__ Word all[LANES];
  all[threadIdx.x] = mine;
  for (int step = lanes / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      const Word other = all[threadIdx.x + step];
      all[threadIdx.x] = mine = absorb(mine, {{other.v[1], other.v[2], other.v[3], other.v[0]}});
    }
  }
  __syncthreads();
  Word root = all[0];
  __syncthreads();
  return root;
}

struct Part {  // of an output: `blocks` of the launch read it, from `first_block` on
  const unsigned char *start;  // aligned to 16
  long long bytes;
  int first_block, blocks;
};

static const int PARTS = 32, MOST_BLOCKS = 512;

struct Parts {
  Part each[PARTS];
  int count;
};

struct DigestState {  // in device memory; `arrived` is zero before the first launch
  Word chained;       // the digest so far, where an output has more parts than one launch takes
  int arrived, unused[3];
  Word of_blocks[MOST_BLOCKS];
};

// Digests the parts of an output after those of the launches before, unless it is the first. Lane l of L that read a
// part takes its words l, l + L, l + 2 L …, so what comes out does not depend on the device. The last launch tells the
// digest and the call's number in one transaction, if it has a page.
extern "C" __global__ void digest(int *page, int call, DigestState *state, Parts parts, int first, int last) {
  int mine = 0;
  while (mine + 1 < parts.count && parts.each[mine + 1].first_block <= blockIdx.x) mine++;
  Word hash = {{1, threadIdx.x, blockIdx.x, 0}};
  if (mine < parts.count) {
    const Part part = parts.each[mine];
    const long long words = part.bytes / 16, lanes = (long long)part.blocks * LANES;
    const long long lane = (long long)(blockIdx.x - part.first_block) * LANES + threadIdx.x;
    hash = absorb(hash, {{(unsigned)part.bytes, (unsigned)(part.bytes >> 32), (unsigned)mine, (unsigned)part.blocks}});
    long long at = lane;
    for (; at + 3 * lanes < words; at += 4 * lanes) {
      Word four[4];
#pragma unroll
      for (int i = 0; i < 4; i++) four[i] = load_word(part.start + 16 * (at + i * lanes));
#pragma unroll
      for (int i = 0; i < 4; i++) hash = absorb(hash, four[i]);
    }
    for (; at < words; at += lanes) hash = absorb(hash, load_word(part.start + 16 * at));
    if (at == words && part.bytes % 16) hash = absorb(hash, load_tail(part.start + 16 * words, part.bytes % 16));
  }
  hash = joined(hash, LANES);

  __shared__ bool all_here;
  if (threadIdx.x == 0) {
    state->of_blocks[blockIdx.x] = hash;
    __threadfence();
    all_here = atomicAdd(&state->arrived, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!all_here) return;
  __threadfence();
  hash = {{3, threadIdx.x, gridDim.x, 0}};
  for (int block = threadIdx.x; block < gridDim.x; block += LANES) {
    hash = absorb(hash, load_word(&state->of_blocks[block]));
  }
  int lanes = 1;
  while (lanes < LANES && lanes < gridDim.x) lanes *= 2;
  hash = joined(hash, lanes);
  if (threadIdx.x != 0) return;
  const Word nothing = {{4, 0, 0, 0}};
  hash = absorb(first ? nothing : state->chained, hash);
  state->chained = hash;
  state->arrived = 0;
  if (last && page != nullptr) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(page + DIGEST), "r"(hash.v[0]), "r"(hash.v[1]), "r"(hash.v[2]), "r"(call)
                 : "memory");
    __threadfence_system();
  }
}
