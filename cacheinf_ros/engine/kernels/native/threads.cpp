// A small thread pool: the caller works too, and workers spin briefly between the many short loops of one frame.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
static inline void relax() { _mm_pause(); }
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

struct Buffer {
  float* data = nullptr;
  int64_t floats = 0;
  ~Buffer() { std::free(data); }
};
}  // namespace

struct ci_threads {
  explicit ci_threads(int count) : buffers(count) {
    for (int worker = 1; worker < count; ++worker) workers.emplace_back([this, worker] { work(worker); });
  }

  ~ci_threads() {
    stopping = true;
    announce(0);
    for (auto& worker : workers) worker.join();
  }

  void run(int count, ci::Task function, void* argument) {
    if (workers.empty() || count <= 1) {
      for (int index = 0; index < count; ++index) function(argument, index, 0);
      return;
    }
    task.store(function, std::memory_order_relaxed);
    context.store(argument, std::memory_order_relaxed);
    done.store(0, std::memory_order_relaxed);
    announce(count);
    drain(0);
    // Waits for tasks, not for workers: one that the system has not woken yet must not hold up the frame.
    for (int spin = 0; done.load(std::memory_order_acquire) != count; ++spin) wait_a_moment(spin);
  }

  // Starts a new generation of `count` tasks.
  void announce(int count) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ticket.store((generation() + 1) << 40 | uint64_t(count) << 20, std::memory_order_release);
    }
    wake.notify_all();
  }

  // Takes tasks until none are left. A ticket holds the loop's generation, its number of tasks and the index of the
  // next one, so that a late worker can never take a task of one loop with the function of another.
  void drain(int worker) {
    uint64_t next = ticket.load(std::memory_order_acquire);
    for (;;) {
      const ci::Task function = task.load(std::memory_order_relaxed);
      void* const argument = context.load(std::memory_order_relaxed);
      const int index = static_cast<int>(next & kMost), count = static_cast<int>(next >> 20 & kMost);
      if (index >= count) return;
      if (!ticket.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel)) continue;
      function(argument, index, worker);
      done.fetch_add(1, std::memory_order_release);
      next = ticket.load(std::memory_order_acquire);
    }
  }

  uint64_t generation() const { return ticket.load(std::memory_order_acquire) >> 40; }

  void work(int worker) {
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

  std::vector<Buffer> buffers;
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> ticket{0};
  std::atomic<int> done{0};
  std::atomic<bool> stopping{false};
  std::atomic<bool> awake{false};
  std::atomic<ci::Task> task{nullptr};
  std::atomic<void*> context{nullptr};
};

namespace ci {

void parallel_for(ci_threads* threads, int tasks, Task run, void* context) { threads->run(tasks, run, context); }

void keep_awake(ci_threads* threads, bool awake) {
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
  }
  return buffer.data;
}

}  // namespace ci

extern "C" {
ci_threads* ci_threads_create(int count) { return new ci_threads(count < 1 ? 1 : count); }
void ci_threads_destroy(ci_threads* threads) { delete threads; }

// Until a program has run, or until it is called with 0, workers do not sleep.
void ci_threads_keep_awake(ci_threads* threads, int awake) { ci::keep_awake(threads, awake != 0); }
}
