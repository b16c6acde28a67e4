// Kernels that treat every pixel on its own.
#include <cmath>

#include "exponential.h"
#include "loops.h"

namespace CI_ISA {
namespace {

inline Vector combined(int32_t how, Vector a, Vector b) {
  switch (how) {
    case CI_ADD: return a + b;
    case CI_SUB: return a - b;
    case CI_MUL: return a * b;
    case CI_DIV: return a / b;
    case CI_MAXIMUM: return largest(a, b);
    case CI_MINIMUM: return smallest(a, b);
    default: return a;
  }
}

inline void combine_row(const ci_elementwise& p, const float* a, const float* b, float* out) {
  const auto combine = [&](int k, int width) {
    Vector v = load_part(a + k, width);
    if (p.combine != CI_FIRST) v = combined(p.combine, v, load_part(b + k, width));
    if (p.scale) v *= load_part(p.scale + k, width);
    if (p.shift) v += load_part(p.shift + k, width);
    store_part(out + k, activate(p.activation, v, k, width), width);
  };
  int k = 0;
  for (; k + kLanes <= p.channels; k += kLanes) combine(k, kLanes);
  if (k < p.channels) combine(k, p.channels - k);
}

// Sum over a row of function(value, channel).
template <class Function>
inline float sum_over(const float* in, int channels, const Function& function) {
  Vector sums[2] = {Vector{}, Vector{}};
  int k = 0;
  for (; k + 2 * kLanes <= channels; k += 2 * kLanes) {
    sums[0] += function(load(in + k));
    sums[1] += function(load(in + k + kLanes));
  }
  if (k + kLanes <= channels) {
    sums[0] += function(load(in + k));
    k += kLanes;
  }
  float rest = 0;
  if (k < channels) {
    float lanes[kLanes];
    store(lanes, function(load_part(in + k, channels - k)));
    for (int i = 0; i < channels - k; ++i) rest += lanes[i];
  }
  return sum_of(sums[0] + sums[1]) + rest;
}

inline void normalise_row(const ci_channel_norm& p, const float* in, float* out) {
  const float mean = sum_over(in, p.channels, [](Vector v) { return v; }) / p.channels;
  const float squares = sum_over(in, p.channels, [&](Vector v) { return (v - mean) * (v - mean); });
  const float factor = 1.0f / std::sqrt(squares / p.channels + p.epsilon);
  const auto normalise = [&](int k, int width) {
    const Vector v = (load_part(in + k, width) - mean) * factor;
    store_part(out + k, v * load_part(p.weight + k, width) + load_part(p.bias + k, width), width);
  };
  int k = 0;
  for (; k + kLanes <= p.channels; k += kLanes) normalise(k, kLanes);
  if (k < p.channels) normalise(k, p.channels - k);
}

inline float largest_in(const float* in, int channels) {
  if (channels < kLanes) return *std::max_element(in, in + channels);
  Vector v = load(in);
  for (int k = kLanes; k < channels; k += kLanes) v = largest(v, load(in + std::min(k, channels - kLanes)));
  return largest_of(v);
}

inline void softmax_row(const ci_channel_softmax& p, const float* in, float* out) {
  const float top = largest_in(in, p.channels);
  const auto write = [&](auto function) {
    int k = 0;
    for (; k + kLanes <= p.channels; k += kLanes) store(out + k, function(k, kLanes));
    if (k < p.channels) store_part(out + k, function(k, p.channels - k), p.channels - k);
  };
  if (p.log) {
    const float sum = sum_over(in, p.channels, [&](Vector v) { return exponential(v - top); });
    const float shift = std::log(sum);
    return write([&](int k, int width) { return load_part(in + k, width) - top - shift; });
  }
  write([&](int k, int width) { return exponential(load_part(in + k, width) - top); });
  const float factor = 1.0f / sum_over(out, p.channels, [](Vector v) { return v; });
  write([&](int k, int width) { return load_part(out + k, width) * factor; });
}

// Channels of the input that lie together in the output too.
struct Run {
  int32_t from, to, count;
};

int list_runs(const ci_select& p, Run* runs) {
  if (!p.index) {
    runs[0] = {0, 0, p.channels};
    return 1;
  }
  int count = 0;
  for (int32_t k = 0; k < p.channels; ++k) {
    if (k > 0 && p.index[k] == p.index[k - 1] + 1) ++runs[count - 1].count;
    else runs[count++] = {p.index[k], k, 1};
  }
  return count;
}

// Calls body(row, out) for the listed rows, in parallel.
template <class Body>
void for_rows(ci_threads* threads, const ci_rows& rows, float* out, int64_t pitch, int64_t cost, const Body& body) {
  for_spans(threads, rows.count, cost, [&](int first, int last, int) {
    for (int i = first; i < last; ++i) body(int64_t(rows.rows[i]), out + rows.to[i] * pitch);
  });
}

}  // namespace

void elementwise(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_elementwise& p = *static_cast<const ci_elementwise*>(params);
  for_rows(threads, rows, out, pitch, 3 * p.channels, [&](int64_t row, float* to) {
    combine_row(p, p.a + row * p.a_pitch, p.b + row * p.b_pitch, to);
  });
}

void channel_norm(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_channel_norm& p = *static_cast<const ci_channel_norm*>(params);
  for_rows(threads, rows, out, pitch, 4 * p.channels,
           [&](int64_t row, float* to) { normalise_row(p, p.in + row * p.in_pitch, to); });
}

void channel_softmax(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_channel_softmax& p = *static_cast<const ci_channel_softmax*>(params);
  for_rows(threads, rows, out, pitch, 8 * p.channels,
           [&](int64_t row, float* to) { softmax_row(p, p.in + row * p.in_pitch, to); });
}

void select(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_select& p = *static_cast<const ci_select*>(params);
  static_assert(sizeof(Run) % sizeof(float) == 0);
  Run* const runs = reinterpret_cast<Run*>(ci::scratch(threads, 0, p.channels * sizeof(Run) / sizeof(float)));
  const int count = list_runs(p, runs);
  for_rows(threads, rows, out, pitch, 2 * p.channels + 4 * count, [&](int64_t row, float* to) {
    const float* in = p.in + row * p.in_pitch;
    if (p.index && 2 * count > p.channels)
      for (int k = 0; k < p.channels; ++k) to[k] = in[p.index[k]];
    else
      for (int i = 0; i < count; ++i) copy(to + runs[i].to, in + runs[i].from, runs[i].count);
  });
}

}  // namespace CI_ISA
