// The device's part of the supervisor's clock. clock.ptx beside this file is made from it by scripts/build_clock_ptx and
// is what the package loads, so that a machine needs no compiler. Word numbers as in harness/wire/words.py.

static const int ACKNOWLEDGE = 16, PONG = 32, FLUSHED = 80;

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
