// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Kernels that move pixels or reduce them: resizing, padding, pixel shuffle, the mean over all pixels.
#include "loops.h"
#include "resampling_taps.h"

namespace CI_ISA {
namespace {

constexpr int kVectors = 4;      // of channels whose sums are in registers at the same time
constexpr int kMeanPixels = 64;  // summed in single precision before they are added in double precision

// VECTORS vectors of channels from k on. PART: there are fewer channels than a vector has lanes.
template <int VECTORS, bool PART, class Value>
inline void sum_taps(const Tap<Value>* taps, int count, Value* out, int k, int width) {
  if (!PART) width = kLanes;
  Vector sums[VECTORS] = {};
  for (const Tap<Value>* tap = taps; tap < taps + count; ++tap)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) sums[v] += load_part(tap->in + k + v * kLanes, width) * tap->weight;
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; ++v) store_part(out + k + v * kLanes, sums[v], width);
}

template <class Value>
void resample_row(const ci_resample& p, const Tap<Value>* taps, int count, Value* out) {
  const bool single = p.taps_y * p.taps_x == 1;
  if (single && count == 0) {
    Value fill;
    store_part(&fill, all(p.fill), 1);
    std::fill_n(out, p.channels, fill);
  } else if (single && taps->weight == 1) {
    copy(out, taps->in, p.channels);
  } else if (p.channels < kLanes) {
    sum_taps<1, true>(taps, count, out, 0, p.channels);
  } else {
    int k = 0;
    for (; k + kVectors * kLanes <= p.channels; k += kVectors * kLanes)
      sum_taps<kVectors, false>(taps, count, out, k, kLanes);
    for (; k < p.channels; k += kLanes)  // the last ones may be computed twice
      sum_taps<1, false>(taps, count, out, std::min(k, p.channels - kLanes), kLanes);
  }
}

template <class Value>
void shuffle_row(const ci_pixel_shuffle& p, int64_t row, Value* out) {
  const int f = p.factor;
  const int64_t oy = row / p.out_width, ox = row % p.out_width, phase = oy % f * f + ox % f;
  const Value* in = values_of<Value>(p.in) + (oy / f * (p.out_width / f) + ox / f) * p.in_pitch;
  if (p.phase_major) return copy(out, in + phase * p.channels, p.channels);
  for (int k = 0; k < p.channels; ++k) out[k] = in[int64_t(k) * f * f + phase];
}

// Sums of some pixels, channel by channel.
template <class Value>
void sum_pixels(const Value* in, int64_t pitch, int pixels, int channels, float* sums) {
  const auto sum = [&](int k, int width) {
    Vector even{}, odd{};
    int i = 0;
    for (; i + 2 <= pixels; i += 2) {
      even += load_part(in + i * pitch + k, width);
      odd += load_part(in + (i + 1) * pitch + k, width);
    }
    if (i < pixels) even += load_part(in + i * pitch + k, width);
    store_part(sums + k, even + odd, width);
  };
  int k = 0;
  for (; k + kLanes <= channels; k += kLanes) sum(k, kLanes);
  if (k < channels) sum(k, channels - k);
}

}  // namespace

template <class Value>
void resample(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_resample& p = *static_cast<const ci_resample*>(params);
  const int64_t most = int64_t(p.taps_y) * p.taps_x;
  for_spans(threads, rows.count, int64_t(p.channels) * (most + 1), [&](int first, int last, int worker) {
    using Place = Tap<Value>;
    Place* const taps = reinterpret_cast<Place*>(ci::scratch(threads, worker, most * sizeof(Place) / sizeof(float)));
    for (int i = first; i < last; ++i) {
      const int oy = rows.rows[i] / p.out_width, ox = rows.rows[i] - oy * p.out_width;
      const int count = list_taps(p, values_of<Value>(p.in), oy, ox, taps);
      resample_row(p, taps, count, values_of<Value>(out) + rows.to[i] * pitch);
    }
  });
}

template <class Value>
void pixel_shuffle(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_pixel_shuffle& p = *static_cast<const ci_pixel_shuffle*>(params);
  for_spans(threads, rows.count, p.phase_major ? 2 * p.channels : 8 * p.channels, [&](int first, int last, int) {
    for (int i = first; i < last; ++i) shuffle_row(p, rows.rows[i], values_of<Value>(out) + rows.to[i] * pitch);
  });
}

// One output row. The result does not depend on the number of threads.
template <class Value>
void global_mean(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_global_mean& p = *static_cast<const ci_global_mean*>(params);
  const int blocks = (p.pixels + kMeanPixels - 1) / kMeanPixels;
  float* const sums = ci::scratch(threads, 0, int64_t(blocks) * p.channels);
  for_spans(threads, blocks, int64_t(kMeanPixels) * p.channels, [&](int first, int last, int) {
    for (int i = first; i < last; ++i) {
      const int start = i * kMeanPixels, pixels = std::min(kMeanPixels, p.pixels - start);
      sum_pixels(values_of<Value>(p.in) + start * p.in_pitch, p.in_pitch, pixels, p.channels, sums + int64_t(i) * p.channels);
    }
  });
  Value* const mean = values_of<Value>(out) + rows.to[0] * pitch;
  for (int k = 0; k < p.channels; ++k) {
    double sum = 0;
    for (int i = 0; i < blocks; ++i) sum += sums[int64_t(i) * p.channels + k];
    store_part(mean + k, all(float(sum / p.pixels)), 1);
  }
}

CI_INSTANTIATE(resample);
CI_INSTANTIATE(pixel_shuffle);
CI_INSTANTIATE(global_mean);

}  // namespace CI_ISA
