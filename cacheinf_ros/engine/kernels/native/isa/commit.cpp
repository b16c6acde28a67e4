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

// all: every touched pixel counts as changed.
void write_input(const ci_input& input, const uint8_t* image, const ci_set& touched, ci_set& changed, bool all) {
  const int32_t* rows = ci::rows_of(touched);
  std::memset(changed.mask, 0, int64_t(changed.height) * changed.width);
  for (int i = 0; i < touched.count; ++i) {
    const int64_t pixel = rows[i];
    const uint8_t* from = image + pixel * 3;
    uint8_t* seen = input.seen + pixel * 3;
    std::memcpy(input.composed + pixel * 3, from, 3);
    if (!all && seen[0] == from[0] && seen[1] == from[1] && seen[2] == from[2]) continue;
    float values[3], squares = 0;
    for (int c = 0; c < 3; ++c) {
      const float* table = input.table + c * 256;
      values[c] = table[from[input.order[c]]];
      const float change = values[c] - table[seen[input.order[c]]];
      squares += input.weight[c] * change * change;
    }
    if (!all && squares <= input.threshold) continue;
    std::memcpy(seen, from, 3);
    std::memcpy(input.out + pixel * input.pitch, values, sizeof(values));
    changed.mask[pixel] = 1;
  }
  ci::list(changed);
}

}  // namespace CI_ISA
