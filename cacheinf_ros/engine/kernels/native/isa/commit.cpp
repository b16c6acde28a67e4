// Where computed values meet what downstream operators last saw: small changes are not passed on.
#include "sets.h"

namespace CI_ISA {
namespace {

struct Job {
  const ci_step* step;
  const float* computed;
  const int32_t* rows;
  int count, chunk;
  uint8_t* changed;
};

inline float sum(Vector v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

inline bool any_above(Vector v, float threshold) {
  const auto above = v > all(threshold);
  int any = 0;
  for (int i = 0; i < kLanes; ++i) any |= above[i];
  return any != 0;
}

inline Vector weighted(const ci_step& step, Vector v, int channel, int width) {
  return step.weight ? v * load_part(step.weight + channel, width) : v;
}

bool differs(const ci_step& step, const float* computed, const float* old) {
  Vector squares = all(0);
  for (int c = 0; c < step.channels; c += kLanes) {
    const int width = std::min(kLanes, step.channels - c);
    const Vector change = load_part(computed + c, width) - load_part(old + c, width);
    if (step.criterion == CI_SUM_OF_SQUARES) squares += weighted(step, change * change, c, width);
    else if (any_above(weighted(step, largest(change, -change), c, width), step.threshold)) return true;
  }
  return step.criterion == CI_SUM_OF_SQUARES && sum(squares) > step.threshold;
}

void commit_task(void* context, int task, int) {
  const Job& job = *static_cast<Job*>(context);
  const ci_step& step = *job.step;
  for (int i = task * job.chunk; i < std::min(job.count, (task + 1) * job.chunk); ++i) {
    const float* computed = job.computed + int64_t(i) * step.channels;
    float* old = step.out + job.rows[i] * step.pitch;
    job.changed[i] = differs(step, computed, old);
    if (job.changed[i]) std::memcpy(old, computed, step.channels * sizeof(float));
  }
}

}  // namespace

void commit(ci_threads* threads, const ci_step& step, const float* computed, const int32_t* rows, int count,
            uint8_t* changed) {
  Job job{&step, computed, rows, count, std::max(16, 16384 / step.channels), changed};
  ci::parallel_for(threads, (count + job.chunk - 1) / job.chunk, commit_task, &job);
}

}  // namespace CI_ISA
