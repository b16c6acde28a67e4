// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// The other kernels on levels: arithmetic of single pixels, what moves pixels, the mean over all of them.
#include "int8_levels.h"
#include "loops.h"
#include "resampling_taps.h"

namespace CI_ISA {
namespace {

// Calls body(channel, width) for vectors of channels.
template <class Body>
inline void for_channels(int channels, const Body& body) {
  int k = 0;
  for (; k + kLanes <= channels; k += kLanes) body(k, kLanes);
  if (k < channels) body(k, channels - k);
}

// Calls body(row, at) for the listed rows and where they lie in the output, in parallel.
template <class Body>
void for_rows(ci_threads* threads, const ci_rows& rows, int64_t pitch, int64_t cost, const Body& body) {
  for_spans(threads, rows.count, cost, [&](int first, int last, int) {
    for (int i = first; i < last; ++i) body(int64_t(rows.rows[i]), rows.to[i] * pitch);
  });
}

inline uint8_t* levels_of(float* map) { return reinterpret_cast<uint8_t*>(map); }
inline const uint8_t* levels_of(const float* map) { return reinterpret_cast<const uint8_t*>(map); }

void resample_row(const ci_resample_int8& p, const Tap<uint8_t>* taps, int count, uint8_t* out) {
  const ci_resample& r = p.resample;
  const bool single = r.taps_y * r.taps_x == 1;
  if (single && count == 0) {
    std::memset(out, p.fill, r.channels);
  } else if (single && taps->weight == 1 && p.factor == 1 && p.in_zero == p.out_zero) {
    copy(out, taps->in, r.channels);
  } else {
    for_channels(r.channels, [&](int k, int width) {
      Vector sum{};
      for (const Tap<uint8_t>* tap = taps; tap < taps + count; ++tap)
        sum += (load_part(tap->in + k, width) - float(p.in_zero)) * tap->weight;
      store_levels(out + k, sum * p.factor, p.out_zero, width);
    });
  }
}

}  // namespace

void elementwise(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_elementwise_int8& p = *static_cast<const ci_elementwise_int8*>(params);
  const ci_elementwise& e = p.elementwise;
  const float to_units = p.out.scale == 0 ? 1.0f : 1.0f / p.out.scale;
  for_rows(threads, rows, pitch, 3 * e.channels, [&](int64_t row, int64_t at) {
    for_channels(e.channels, [&](int k, int width) {
      Vector v = load_as(p.a, e.a, row * e.a_pitch + k, width);
      if (e.combine != CI_FIRST) v = combined(e.combine, v, load_as(p.b, e.b, row * e.b_pitch + k, width));
      if (e.scale) v *= load_part(e.scale + k, width);
      if (e.shift) v += load_part(e.shift + k, width);
      store_as(p.out, out, at + k, activate(e.activation, v, k, width) * to_units, width);
    });
  });
}

void convert(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_convert& p = *static_cast<const ci_convert*>(params);
  const float to_units = p.to.scale == 0 ? 1.0f : 1.0f / p.to.scale;
  for_rows(threads, rows, pitch, 2 * p.channels, [&](int64_t row, int64_t at) {
    for_channels(p.channels, [&](int k, int width) {
      const Vector v = load_as(p.from, static_cast<const float*>(p.in), row * p.in_pitch + k, width);
      store_as(p.to, out, at + k, v * to_units, width);
    });
  });
}

void resample(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_resample_int8& p = *static_cast<const ci_resample_int8*>(params);
  const ci_resample& r = p.resample;
  const int64_t most = int64_t(r.taps_y) * r.taps_x;
  for_spans(threads, rows.count, int64_t(r.channels) * most, [&](int first, int last, int worker) {
    using Place = Tap<uint8_t>;
    Place* const taps = reinterpret_cast<Place*>(ci::scratch(threads, worker, most * sizeof(Place) / sizeof(float)));
    for (int i = first; i < last; ++i) {
      const int oy = rows.rows[i] / r.out_width, ox = rows.rows[i] - oy * r.out_width;
      resample_row(p, taps, list_taps(r, levels_of(r.in), oy, ox, taps), levels_of(out) + rows.to[i] * pitch);
    }
  });
}

void pixel_shuffle(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_pixel_shuffle& p = *static_cast<const ci_pixel_shuffle*>(params);
  const int f = p.factor;
  for_rows(threads, rows, pitch, p.phase_major ? p.channels : 4 * p.channels, [&](int64_t row, int64_t at) {
    const int64_t oy = row / p.out_width, ox = row % p.out_width, phase = oy % f * f + ox % f;
    const uint8_t* in = levels_of(p.in) + (oy / f * (p.out_width / f) + ox / f) * p.in_pitch;
    uint8_t* to = levels_of(out) + at;
    if (p.phase_major) return copy(to, in + phase * p.channels, p.channels);
    for (int k = 0; k < p.channels; ++k) to[k] = in[int64_t(k) * f * f + phase];
  });
}

void select(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_select& p = *static_cast<const ci_select*>(params);
  for_rows(threads, rows, pitch, p.index ? 4 * p.channels : p.channels, [&](int64_t row, int64_t at) {
    const uint8_t* in = levels_of(p.in) + row * p.in_pitch;
    uint8_t* to = levels_of(out) + at;
    if (!p.index) return copy(to, in, p.channels);
    for (int k = 0; k < p.channels; ++k) to[k] = in[p.index[k]];
  });
}

// One output row, from sums that are exact.
void global_mean(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_global_mean_int8& p = *static_cast<const ci_global_mean_int8*>(params);
  const ci_global_mean& m = p.mean;
  const float unit = p.out.scale == 0 ? 1.0f : p.out.scale;
  const int blocks = (m.channels + kLanes - 1) / kLanes;
  for_spans(threads, blocks, int64_t(m.pixels) * kLanes, [&](int first, int last, int) {
    for (int i = first; i < last; ++i) {
      const int k = i * kLanes, width = std::min(kLanes, m.channels - k);
      int64_t sums[kLanes] = {};
      constexpr int kMost = 1 << 23;  // levels whose sum an int32_t holds
      for (int pixel = 0; pixel < m.pixels;) {
        Bits sum{};
        for (const int end = std::min(m.pixels, pixel + kMost); pixel < end; ++pixel)
          sum += load_whole(levels_of(m.in) + pixel * m.in_pitch + k, width);
        for (int lane = 0; lane < kLanes; ++lane) sums[lane] += sum[lane];
      }
      Vector mean;
      for (int lane = 0; lane < kLanes; ++lane)
        mean[lane] = float((double(sums[lane]) / m.pixels - p.in.zero) * p.in.scale / unit);
      store_as(p.out, out, rows.to[0] * pitch + k, mean, width);
    }
  });
}

}  // namespace CI_ISA
