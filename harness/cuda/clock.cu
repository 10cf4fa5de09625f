// The device's part of the supervisor's clock. clock.ptx beside this file is made from it by scripts/build_clock_ptx and
// is what the package loads, so that a machine needs no compiler. Word numbers as in harness/wire/words.py.

static const int RELEASE = 0, ACKNOWLEDGE = 16, PONG = 32;

static __device__ int2 load_release_and_ping(const int *page) {
  int2 words;  // one transaction over the bus: the release word and the ping word share a line
  asm volatile("ld.volatile.global.v2.s32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "l"(page + RELEASE) : "memory");
  return words;
}

// Fills every thread slot of the device and holds it until the supervisor releases the call. Only the last block to
// arrive polls host memory (hundreds of pollers over the bus cost milliseconds); the others wait on device memory.
extern "C" __global__ void gate(int *page, int call, int *arrived, volatile int *relay, int blocks) {
  if (threadIdx.x == 0) {
    if (atomicAdd(arrived, 1) == blocks - 1) {  // the device is full: nothing else can be running
      volatile int *words = page;
      *arrived = 0;
      words[ACKNOWLEDGE] = call;
      __threadfence_system();
      int echoed = 0;
      for (int2 now = load_release_and_ping(page); now.x != call; now = load_release_and_ping(page)) {
        if (now.y != echoed) {
          words[PONG] = echoed = now.y;
          __threadfence_system();
        }
      }
      *relay = call;
      __threadfence();
    } else {
      while (*relay != call) __nanosleep(100);
    }
  }
  __syncthreads();
}

// Tells the supervisor that everything before it in the stream has ended.
extern "C" __global__ void mark(volatile int *word, int call) {
  __threadfence_system();
  *word = call;
  __threadfence_system();
}
