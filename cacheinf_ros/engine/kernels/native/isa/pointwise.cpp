// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Kernels that treat every pixel on its own.
#include <cmath>
#include <utility>

#include "exponential.h"
#include "loops.h"

namespace CI_ISA {
namespace {

template <class Value>
inline void combine_row(const ci_elementwise& p, const Value* a, const Value* b, Value* out, int64_t channels) {
  const auto combine = [&](int64_t k, int width) {
    Vector v = load_part(a + k, width);
    if (p.combine != CI_FIRST) v = combined(p.combine, v, load_part(b + k, width));
    if (p.scale) v *= load_part(p.scale + k, width);
    if (p.shift) v += load_part(p.shift + k, width);
    store_part(out + k, activate(p.activation, v, k, width), width);
  };
  int64_t k = 0;
  for (; k + kLanes <= channels; k += kLanes) combine(k, kLanes);
  if (k < channels) combine(k, int(channels - k));
}

// Whether the operator is the same for all channels, and rows lie behind one another.
bool is_uniform(const ci_elementwise& p, int64_t pitch) {
  return !p.scale && !p.shift && p.activation.kind != CI_PRELU && pitch == p.channels && p.a_pitch == pitch &&
         (p.combine == CI_FIRST || p.b_pitch == pitch);
}

// Whether these rows follow one another where they are read and where they are written.
inline bool are_together(const ci_rows& rows, int first, int last) {
  const int steps = last - 1 - first;
  return rows.rows[last - 1] - rows.rows[first] == steps && rows.to[last - 1] - rows.to[first] == steps;
}

// Sum over a row of function(value, channel).
template <class Value, class Function>
inline float sum_over(const Value* in, int channels, const Function& function) {
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

template <class Value>
inline void normalise_row(const ci_channel_norm& p, const Value* in, Value* out) {
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

// Whether two sequences of channels alternate: a shuffle of two groups.
bool alternates(const ci_select& p) {
  if (!p.index || p.channels % 2) return false;
  for (int k = 2; k < p.channels; ++k)
    if (p.index[k] != p.index[k - 2] + 1) return false;
  return true;
}

template <int... LANE>
inline Vector first_half(Vector a, Vector b, std::integer_sequence<int, LANE...>) {
  return __builtin_shuffle(a, b, Bits{(LANE / 2 + LANE % 2 * kLanes)...});
}

template <int... LANE>
inline Vector second_half(Vector a, Vector b, std::integer_sequence<int, LANE...>) {
  return __builtin_shuffle(a, b, Bits{(LANE / 2 + LANE % 2 * kLanes + kLanes / 2)...});
}

// out: a[0], b[0], a[1], b[1], ...
template <class Value>
inline void alternate(const Value* a, const Value* b, Value* out, int pairs) {
  const std::make_integer_sequence<int, kLanes> lanes;
  int k = 0;
  for (; k + kLanes <= pairs; k += kLanes) {
    const Vector even = load(a + k), odd = load(b + k);
    store(out + 2 * k, first_half(even, odd, lanes));
    store(out + 2 * k + kLanes, second_half(even, odd, lanes));
  }
  for (; k < pairs; ++k) {
    out[2 * k] = a[k];
    out[2 * k + 1] = b[k];
  }
}

// Calls body(row, out) for the listed rows, in parallel.
template <class Value, class Body>
void for_rows(ci_threads* threads, const ci_rows& rows, Value* out, int64_t pitch, int64_t cost, const Body& body) {
  for_spans(threads, rows.count, cost, [&](int first, int last, int) {
    for (int i = first; i < last; ++i) body(int64_t(rows.rows[i]), out + rows.to[i] * pitch);
  });
}

template <class From, class To>
void convert(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_select& p = *static_cast<const ci_select*>(params);
  for_rows(threads, rows, values_of<To>(out), pitch, 2 * p.channels, [&](int64_t row, To* to) {
    const From* from = values_of<From>(p.in) + row * p.in_pitch;
    int k = 0;
    for (; k + kLanes <= p.channels; k += kLanes) store(to + k, load(from + k));
    if (k < p.channels) store_part(to + k, load_part(from + k, p.channels - k), p.channels - k);
  });
}

}  // namespace

template <class Value>
void elementwise(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_elementwise& p = *static_cast<const ci_elementwise*>(params);
  const bool uniform = is_uniform(p, pitch);
  for_spans(threads, rows.count, 3 * p.channels, [&](int first, int last, int) {
    const int rows_at_once = uniform && are_together(rows, first, last) ? last - first : 1;
    for (int i = first; i < last; i += rows_at_once) {
      const int64_t row = rows.rows[i];
      combine_row(p, values_of<Value>(p.a) + row * p.a_pitch, values_of<Value>(p.b) + row * p.b_pitch,
                  values_of<Value>(out) + rows.to[i] * pitch, int64_t(rows_at_once) * p.channels);
    }
  });
}

template <class Value>
void channel_norm(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_channel_norm& p = *static_cast<const ci_channel_norm*>(params);
  for_rows(threads, rows, values_of<Value>(out), pitch, 4 * p.channels,
           [&](int64_t row, Value* to) { normalise_row(p, values_of<Value>(p.in) + row * p.in_pitch, to); });
}

void channel_softmax(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_channel_softmax& p = *static_cast<const ci_channel_softmax*>(params);
  for_rows(threads, rows, out, pitch, 8 * p.channels,
           [&](int64_t row, float* to) { softmax_row(p, p.in + row * p.in_pitch, to); });
}

template <class Value>
void select(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_select& p = *static_cast<const ci_select*>(params);
  Run* const runs = reinterpret_cast<Run*>(ci::scratch(threads, 0, p.channels * sizeof(Run) / sizeof(float)));
  const int count = list_runs(p, runs);
  const bool pairs = alternates(p), scattered = p.index && 2 * count > p.channels;
  for_rows(threads, rows, values_of<Value>(out), pitch, 2 * p.channels + 4 * count, [&](int64_t row, Value* to) {
    const Value* in = values_of<Value>(p.in) + row * p.in_pitch;
    if (pairs) alternate(in + p.index[0], in + p.index[1], to, p.channels / 2);
    else if (scattered) for (int k = 0; k < p.channels; ++k) to[k] = in[p.index[k]];
    else for (int i = 0; i < count; ++i) copy(to + runs[i].to, in + runs[i].from, runs[i].count);
  });
}

CI_INSTANTIATE(elementwise);
CI_INSTANTIATE(channel_norm);
CI_INSTANTIATE(select);

void widen(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  convert<BFloat16, float>(threads, params, rows, out, pitch);
}

void narrow(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  convert<float, BFloat16>(threads, params, rows, out, pitch);
}

}  // namespace CI_ISA
