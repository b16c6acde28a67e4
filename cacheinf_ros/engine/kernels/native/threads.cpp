// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// A small thread pool: the caller works too, and workers spin briefly between the many short loops of one frame.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
static inline void relax() { _mm_pause(); }
#elif defined(__aarch64__)
static inline void relax() { asm volatile("isb"); }  // `yield` does nothing on most of these processors
#else
static inline void relax() { std::this_thread::yield(); }
#endif

namespace {
// About 50 microseconds: longer than the Python between two frames' parts, too short to disturb other processes.
constexpr int kSpins = 2000;
// About 10 microseconds. Where more threads run than processors, one that spins may hold the one it waits for off its
// processor for a whole time slice, 4 ms.
constexpr int kSpinsPerYield = 400;
constexpr uint64_t kMost = (1 << 20) - 1;  // tasks of one loop

void wait_a_moment(int spin) {
  if (spin % kSpinsPerYield == kSpinsPerYield - 1) std::this_thread::yield();
  else relax();
}

struct alignas(64) Share {
  std::atomic<uint64_t> ticket{0};
};

struct Buffer {
  float* data = nullptr;
  int64_t floats = 0;
  ~Buffer() { std::free(data); }
};
}  // namespace

struct ci_threads {
  explicit ci_threads(int count) : buffers(count), shares(count) {
#if defined(__linux__)
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) CPU_ZERO(&allowed);
#endif
    try {
      workers.reserve(count - 1);
      for (int worker = 1; worker < count; ++worker) workers.emplace_back([this, worker] { work(worker); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~ci_threads() { stop(); }

  void stop() {
    stopping = true;
    announce(0);
    for (auto& worker : workers) worker.join();
  }

  void run(int count, ci::Task function, void* argument) {
    if (workers.empty() || count <= 1) {
      for (int index = 0; index < count; ++index) function(argument, index, 0);
      return;
    }
    failed.store(false, std::memory_order_relaxed);
    task.store(function, std::memory_order_relaxed);
    context.store(argument, std::memory_order_relaxed);
    done.store(0, std::memory_order_relaxed);
    announce(count);
    drain(0);
    // Waits for tasks, not for workers: one that the system has not woken yet must not hold up the frame.
    for (int spin = 0; done.load(std::memory_order_acquire) != count; ++spin) wait_a_moment(spin);
    if (failed.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

  // Runs a task; what it throws (there is no more memory) is thrown again by run().
  void attempt(ci::Task function, void* argument, int index, int worker) {
    try {
      function(argument, index, worker);
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
    }
  }

  // Keeps the workers off the caller's processor. Where processors share no cache, a system that wakes a worker looks
  // no farther than its old processor and the waker's, and both then take turns there for many frames.
  void keep_apart() {
#if defined(__linux__)
    const int here = sched_getcpu();
    if (here < 0 || here == kept_off || int(workers.size()) >= CPU_COUNT(&allowed)) return;
    cpu_set_t others = allowed;
    CPU_CLR(here, &others);
    bool all = true;
    for (auto& worker : workers) all &= pthread_setaffinity_np(worker.native_handle(), sizeof(others), &others) == 0;
    if (all) kept_off = here;
#endif
  }

  // Starts a new generation of `count` tasks, of which each thread is given a share: neighbouring ones, the same part
  // in every loop, for tasks are parts of an image, and what a thread reads is in its cache if it has written it.
  void announce(int count) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      const uint64_t next = (generation() + 1) << 40;
      const int threads = static_cast<int>(shares.size());
      for (int i = threads - 1; i >= 0; --i) {  // the first one last: workers wait for it
        const uint64_t start = int64_t(count) * i / threads, end = int64_t(count) * (i + 1) / threads;
        shares[i].ticket.store(next | end << 20 | start, std::memory_order_release);
      }
    }
    wake.notify_all();
  }

  // Takes tasks until none are left, first of the thread's own share.
  void drain(int worker) {
    const int threads = static_cast<int>(shares.size());
    for (int i = 0; i < threads; ++i) drain_share(shares[(worker + i) % threads].ticket, worker);
  }

  // A ticket holds the loop's generation, the share's end and the index of its next task, so that a late worker can
  // never take a task of one loop with the function of another.
  void drain_share(std::atomic<uint64_t>& ticket, int worker) {
    uint64_t next = ticket.load(std::memory_order_acquire);
    for (;;) {
      const ci::Task function = task.load(std::memory_order_relaxed);
      void* const argument = context.load(std::memory_order_relaxed);
      const int index = static_cast<int>(next & kMost), end = static_cast<int>(next >> 20 & kMost);
      if (index >= end) return;
      if (!ticket.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel)) continue;
      attempt(function, argument, index, worker);
      done.fetch_add(1, std::memory_order_release);
      next = ticket.load(std::memory_order_acquire);
    }
  }

  uint64_t generation() const { return shares[0].ticket.load(std::memory_order_acquire) >> 40; }

  void work(int worker) {
    const ci::DenormalsAreZero denormals_are_zero;
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; (spin < kSpins || awake.load(std::memory_order_relaxed)) && generation() == seen; ++spin)
        wait_a_moment(spin);
      if (generation() == seen) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return generation() != seen; });
      }
      seen = generation();
      if (stopping) return;
      drain(worker);
    }
  }

#if defined(__linux__)
  cpu_set_t allowed;  // processors of the thread that made the pool, at that time
  int kept_off = -1;  // the caller's processor
#endif
  std::vector<Buffer> buffers;
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Share> shares;  // of each thread, the caller first
  std::atomic<int> done{0};
  std::atomic<bool> failed{false};  // a task of this loop
  std::atomic<bool> stopping{false};
  std::atomic<bool> awake{false};
  std::atomic<ci::Task> task{nullptr};
  std::atomic<void*> context{nullptr};
};

namespace ci {

#if defined(__x86_64__)
DenormalsAreZero::DenormalsAreZero() : before_(_mm_getcsr()) {
  _mm_setcsr(static_cast<unsigned>(before_) | _MM_FLUSH_ZERO_ON | 0x40);  // results, and with bit 6 operands
}
DenormalsAreZero::~DenormalsAreZero() { _mm_setcsr(static_cast<unsigned>(before_)); }
#elif defined(__aarch64__)
DenormalsAreZero::DenormalsAreZero() {
  asm volatile("mrs %0, fpcr" : "=r"(before_));
  asm volatile("msr fpcr, %0" : : "r"(before_ | uint64_t(1) << 24));  // FZ: results and operands
}
DenormalsAreZero::~DenormalsAreZero() { asm volatile("msr fpcr, %0" : : "r"(before_)); }
#else
DenormalsAreZero::DenormalsAreZero() : before_(0) {}
DenormalsAreZero::~DenormalsAreZero() = default;
#endif

void parallel_for(ci_threads* threads, int tasks, Task run, void* context) { threads->run(tasks, run, context); }

void keep_awake(ci_threads* threads, bool awake) {
  if (awake) threads->keep_apart();
  threads->awake.store(awake, std::memory_order_relaxed);
  if (awake && !threads->workers.empty()) threads->announce(0);
}

int thread_count(const ci_threads* threads) { return static_cast<int>(threads->buffers.size()); }

float* scratch(ci_threads* threads, int worker, int64_t floats) {
  Buffer& buffer = threads->buffers[worker];
  if (buffer.floats < floats) {
    std::free(buffer.data);
    const int64_t bytes = (floats * 4 + 63) / 64 * 64;
    buffer.data = static_cast<float*>(std::aligned_alloc(64, bytes));
    buffer.floats = buffer.data ? floats : 0;
    if (!buffer.data) throw std::bad_alloc();
  }
  return buffer.data;
}

}  // namespace ci

extern "C" {
// Null where the system has no more threads, or no more memory.
ci_threads* ci_threads_create(int count) {
  try {
    return new ci_threads(count < 1 ? 1 : count);
  } catch (const std::exception&) {
    return nullptr;
  }
}
void ci_threads_destroy(ci_threads* threads) { delete threads; }

// Until a program has run, or until it is called with 0, workers do not sleep.
void ci_threads_keep_awake(ci_threads* threads, int awake) { ci::keep_awake(threads, awake != 0); }
}
