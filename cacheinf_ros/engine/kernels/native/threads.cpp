// A small thread pool: the caller works too, and workers spin briefly between the many short loops of one frame.
#include <atomic>
#include <condition_variable>
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
// About 50 microseconds: longer than the Python between two operators, too short to disturb other processes.
constexpr int kSpins = 2000;

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
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
      generation.fetch_add(1);
    }
    wake.notify_all();
    for (auto& worker : workers) worker.join();
  }

  void run(int count, ci::Task function, void* argument) {
    if (workers.empty() || count <= 1) {
      for (int index = 0; index < count; ++index) function(argument, index, 0);
      return;
    }
    task = function;
    context = argument;
    tasks = count;
    next.store(0, std::memory_order_relaxed);
    busy.store(static_cast<int>(workers.size()), std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(mutex);
      generation.fetch_add(1);
    }
    wake.notify_all();
    drain(0);
    while (busy.load(std::memory_order_acquire) != 0) relax();
  }

  void drain(int worker) {
    for (int index; (index = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) task(context, index, worker);
  }

  void work(int worker) {
    unsigned seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && generation.load(std::memory_order_acquire) == seen; ++spin) relax();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return generation.load() != seen; });
      }
      seen = generation.load(std::memory_order_acquire);
      if (stopping) return;
      drain(worker);
      busy.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<Buffer> buffers;
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<unsigned> generation{0};
  std::atomic<int> next{0}, busy{0};
  std::atomic<bool> stopping{false};
  ci::Task task = nullptr;
  void* context = nullptr;
  int tasks = 0;
};

namespace ci {

void parallel_for(ci_threads* threads, int tasks, Task run, void* context) { threads->run(tasks, run, context); }

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
}
