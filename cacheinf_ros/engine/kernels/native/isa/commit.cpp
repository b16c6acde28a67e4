// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Where computed values meet what downstream operators last saw: small changes are not passed on.
#include "loops.h"
#include "sets.h"

namespace CI_ISA {
namespace {

constexpr float kPoolWeights[] = {1, 2, 3, 2, 1};
constexpr int kPoolSide = sizeof(kPoolWeights) / sizeof(float);
static_assert(kPoolSide == 2 * ci::kPoolRadius + 1, "a weight for each neighbour");
constexpr float kPoolLine = kPoolWeights[0] + kPoolWeights[1] + kPoolWeights[2] + kPoolWeights[3] + kPoolWeights[4];
constexpr float kPoolTotal = kPoolLine * kPoolLine;

inline Vector weighted(const ci_step& step, Vector v, int channel, int width) {
  return step.weight ? v * load_part(step.weight + channel, width) : v;
}

template <class Value>  // float, BFloat16, or uint8_t: levels
inline Vector change_of(const Value* computed, const Value* old, int channel, int width) {
  const Vector now = load_part(computed + channel, width), before = load_part(old + channel, width);
  return now == before ? all(0) : now - before;  // equal infinities have no difference
}

// A change that is no number counts: nothing else would ever take NaN out of a map.
inline bool is_above(float change, float threshold) { return !(change <= threshold); }

template <class Value>
float sum_of_squares(const ci_step& step, const Value* computed, const Value* old) {
  Vector squares = all(0);
  for (int c = 0; c < step.channels; c += kLanes) {
    const int width = std::min(kLanes, step.channels - c);
    const Vector change = change_of(computed, old, c, width);
    squares += weighted(step, change * change, c, width);
  }
  return sum_of(squares);
}

inline bool any_above(Vector v, float threshold) {
  const auto within = v <= all(threshold);
  int any = 0;
  for (int i = 0; i < kLanes; ++i) any |= ~within[i];
  return any != 0;
}

template <class Value>
bool differs(const ci_step& step, const Value* computed, const Value* old) {
  if (step.criterion == CI_SUM_OF_SQUARES) return is_above(sum_of_squares(step, computed, old), step.threshold);
  if (sizeof(Value) == 1 && step.threshold == 0 && !step.weight)
    return std::memcmp(computed, old, step.channels) != 0;
  for (int c = 0; c < step.channels; c += kLanes) {
    const int width = std::min(kLanes, step.channels - c);
    const Vector change = change_of(computed, old, c, width);
    if (any_above(weighted(step, largest(change, -change), c, width), step.threshold)) return true;
  }
  return false;
}

template <class Value>
inline Value* row_of(const ci_step& step, int32_t row) {
  return reinterpret_cast<Value*>(step.out) + row * step.pitch;
}

// The pixels [left, right) of a line, each the weighted sum of its neighbours.
void pool_line(const float* squares, int64_t pitch, int left, int right, float* columns, float* pooled) {
  for (int x = left; x < right + 2 * ci::kPoolRadius; x += kLanes) {
    const int width = std::min(kLanes, right + 2 * ci::kPoolRadius - x);
    Vector sum = all(0);
    for (int k = 0; k < kPoolSide; ++k) sum += all(kPoolWeights[k]) * load_part(squares + k * pitch + x, width);
    store_part(columns + x, sum, width);
  }
  for (int x = left; x < right; x += kLanes) {
    const int width = std::min(kLanes, right - x);
    Vector sum = all(0);
    for (int k = 0; k < kPoolSide; ++k) sum += all(kPoolWeights[k]) * load_part(columns + x + k, width);
    store_part(pooled + x, sum, width);
  }
}

template <class Value>
void commit_pooled(ci_threads* threads, const ci_step& step, const Value* computed, const int32_t* rows, int count,
                   const float* squares, uint8_t* changed) {
  const int width = step.target->width;
  const int64_t pitch = width + 2 * ci::kPoolRadius;
  const auto copy_changed = [&](int first, int last, int worker) {
    float* columns = ci::scratch(threads, worker, 2 * pitch);
    float* pooled = columns + pitch;
    for (int i = first; i < last;) {
      const int y = rows[i] / width, end_of_line = (y + 1) * width;
      int end = i + 1;
      while (end < last && rows[end] < end_of_line) ++end;
      pool_line(squares + y * pitch, pitch, rows[i] - y * width, rows[end - 1] - y * width + 1, columns, pooled);
      for (; i < end; ++i) {
        changed[i] = is_above(pooled[rows[i] - y * width], kPoolTotal * step.threshold);
        if (changed[i]) copy(row_of<Value>(step, rows[i]), computed + int64_t(i) * step.channels, step.channels);
      }
    }
  };
  for_spans(threads, count, step.channels + 16, copy_changed);
}

template <class Value>
void commit_each(ci_threads* threads, const ci_step& step, const Value* computed, const int32_t* rows, int count,
                 uint8_t* changed) {
  const auto run = [&](int first, int last, int) {
    for (int i = first; i < last; ++i) {
      const Value* row = computed + int64_t(i) * step.channels;
      Value* old = row_of<Value>(step, rows[i]);
      changed[i] = differs(step, row, old);
      if (changed[i]) copy(old, row, step.channels);
    }
  };
  for_spans(threads, count, 2 * step.channels + 16, run);
}

template <class Value>
void measure_each(ci_threads* threads, const ci_step& step, const Value* computed, const int32_t* rows, int count,
                  float* squares) {
  const int width = step.target->width;
  const int64_t pitch = width + 2 * ci::kPoolRadius;
  const auto run = [&](int first, int last, int) {
    for (int i = first; i < last; ++i) {
      const int y = rows[i] / width + ci::kPoolRadius, x = rows[i] % width + ci::kPoolRadius;
      squares[y * pitch + x] = sum_of_squares(step, computed + int64_t(i) * step.channels, row_of<Value>(step, rows[i]));
    }
  };
  for_spans(threads, count, 2 * step.channels + 16, run);
}

// Calls a function with the computed values as what they are.
template <class Function>
void with_values(const ci_step& step, const void* computed, const Function& function) {
  if (step.value_bytes == 1) function(static_cast<const uint8_t*>(computed));
  else if (step.value_bytes == 2) function(static_cast<const BFloat16*>(computed));
  else function(static_cast<const float*>(computed));
}

}  // namespace

void measure(ci_threads* threads, const ci_step& step, const void* computed, const int32_t* rows, int count,
             float* squares) {
  with_values(step, computed, [&](auto* values) { measure_each(threads, step, values, rows, count, squares); });
}

void commit(ci_threads* threads, const ci_step& step, const void* computed, const int32_t* rows, int count,
            const float* squares, uint8_t* changed) {
  with_values(step, computed, [&](auto* values) {
    if (step.criterion == CI_POOLED_SQUARES) commit_pooled(threads, step, values, rows, count, squares, changed);
    else commit_each(threads, step, values, rows, count, changed);
  });
}

}  // namespace CI_ISA
