// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Kernels over windows that are not matrix products: pooling, depthwise convolution. What they do with the values under a
// window is said by operators: windows.cpp, int8_windows.cpp.
//
// Output pixels from which the same taps of the window lie inside the image are taken several at a time, from anywhere
// in the list: they share weights and offsets, and their sums stay in registers over all taps. Channels are the outer
// loop of a batch of pixels, so that neighbours find each other's inputs in the L1 cache.
#pragma once

#include "loops.h"

namespace CI_ISA {
namespace {

constexpr int kBatch = 128;  // pixels

// Pixels and vectors of channels whose sums are in registers at the same time.
#if defined(__AVX512F__)
constexpr int kPixels = 8, kVectors = 2;
#else
constexpr int kPixels = 4, kVectors = 2;
#endif

template <class Value>  // of the input
struct Pixel {
  const Value* in;  // under the window's first tap, which may lie outside
  int64_t out;      // where its result lies in the output
  int64_t row;
};

// Offsets in values from the window's first tap.
struct Tap {
  int64_t in, weight;
};

// The taps along an axis that lie inside the image, when the first one is at `start`.
struct Inside {
  int start, first, last;  // last + 1

  Inside(int start, int dilation, int kernel, int size)
      : start(start),
        first(start < 0 ? std::min(kernel, (-start + dilation - 1) / dilation) : 0),
        last(std::max(first, start < size ? std::min(kernel, (size - 1 - start) / dilation + 1) : 0)) {}
  int count() const { return last - first; }
  // Of averages too: only where all taps are inside may windows that are alike begin at different places.
  bool is_like(const Inside& other) const { return first == other.first && last == other.last; }
};

// How many pixels an average divides by. torch: padding counts, but not what ceil_mode adds beyond the padded image.
inline int averaged_pixels(const ci_pool& p, const Inside& y, const Inside& x) {
  const ci_window& w = p.window;
  const int height = std::min(y.start + w.kernel_y, w.in_height + w.pad_y) - y.start;
  const int width = std::min(x.start + w.kernel_x, w.in_width + w.pad_x) - x.start;
  return p.count_padding ? height * width : y.count() * x.count();
}

// The taps that several pixels have in common.
struct Taps {
  const Tap* list;
  int count;
  float factor;  // of an average
};

inline int channels_of(const ci_conv& p) { return p.groups; }  // one filter each
inline int channels_of(const ci_conv_int8& p) { return p.groups; }
inline int channels_of(const ci_pool& p) { return p.channels; }

// What all operators over windows have in common; see below.
template <class Params, class Input, class Accumulator, class Output = float>
struct WindowOperator {
  using Value = Input;
  using Sum = Accumulator;
  const Params& p;
  Output* out;
  const ci_window& window = p.window;
  const int channels = channels_of(p);

  static float factor(const Inside&, const Inside&) { return 1; }
};

template <class Input, class Accumulator, class Output = float>
struct PoolOf : WindowOperator<ci_pool, Input, Accumulator, Output> {
  static constexpr bool simple = true;
  static Accumulator weight(int64_t, int) { return Accumulator{}; }
  static void store(const Pixel<Input>&, Accumulator, int64_t, int) {}  // all is simple
};

// An operator has the types Value, of its input, and Sum, a vector. What it does with the values under a window: start,
// then add for each tap, then store the result: `store_simple` from registers, where `simple` says so, otherwise `store`
// with the rest of what the pixel needs.
//
// PIXELS pixels, VECTORS vectors of channels. PART: there are fewer channels than a vector has lanes.
template <int PIXELS, int VECTORS, bool PART, class Operator>
inline void compute_block(const Operator& o, const Taps& taps, const Pixel<typename Operator::Value>* pixels, int64_t k,
                          int width) {
  using Sum = typename Operator::Sum;
  if (!PART) width = kLanes;
  Sum sums[PIXELS][VECTORS];
  const typename Operator::Value* in[PIXELS];
#pragma GCC unroll 8
  for (int i = 0; i < PIXELS; ++i) in[i] = pixels[i].in + k;
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; ++v) {
    const Sum first = o.start(taps, k + v * kLanes, width);
#pragma GCC unroll 8
    for (int i = 0; i < PIXELS; ++i) sums[i][v] = first;
  }
  for (const Tap* tap = taps.list; tap < taps.list + taps.count; ++tap)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) {
      const Sum weight = o.weight(tap->weight + k + v * kLanes, width);
#pragma GCC unroll 8
      for (int i = 0; i < PIXELS; ++i)
        sums[i][v] = o.add(sums[i][v], in[i] + tap->in + v * kLanes, width, weight);
    }
  if (o.simple) {
#pragma GCC unroll 8
    for (int i = 0; i < PIXELS; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v)
        o.store_simple(pixels[i].out + k + v * kLanes, k + v * kLanes, sums[i][v], taps, width);
    return;
  }
  Sum kept[PIXELS][VECTORS];  // sums are in registers only if they are never indexed by a variable
#pragma GCC unroll 8
  for (int i = 0; i < PIXELS; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) kept[i][v] = sums[i][v];
#pragma GCC unroll 1
  for (int i = 0; i < PIXELS; ++i)
#pragma GCC unroll 1
    for (int v = 0; v < VECTORS; ++v) {
      const int64_t at = k + v * kLanes;
      o.store(pixels[i], kept[i][v], at, width);
    }
}

template <int VECTORS, bool PART, class Operator>
void compute_channels(const Operator& o, const Taps& taps, const Pixel<typename Operator::Value>* pixels, int count,
                      int64_t k, int width) {
  int i = 0;
  for (; i + kPixels <= count; i += kPixels) compute_block<kPixels, VECTORS, PART>(o, taps, pixels + i, k, width);
  for (; i + 3 <= count; i += 3) compute_block<3, VECTORS, PART>(o, taps, pixels + i, k, width);
  for (; i < count; ++i) compute_block<1, VECTORS, PART>(o, taps, pixels + i, k, width);
}

// Collects pixels that have the same taps, until there are enough of them.
template <class Operator>
class Batch {
 public:
  Batch(const Operator& o, Tap* room, const Inside& y, const Inside& x) : o_(o), room_(room), y_(y), x_(x) {
    list_taps();
  }

  // Pixels to come have these taps inside the image.
  void use(const Inside& y, const Inside& x) {
    if (y.is_like(y_) && x.is_like(x_)) return;
    compute();
    y_ = y;
    x_ = x;
    list_taps();
  }

  void add(const Pixel<typename Operator::Value>& pixel) {
    if (size_ == kBatch) compute();
    pixels_[size_++] = pixel;
  }

  void compute() {
    const int channels = o_.channels;
    if (channels < kLanes) {
      compute_channels<1, true>(o_, taps_, pixels_, size_, 0, channels);
    } else {
      int k = 0;
      for (; k + kVectors * kLanes <= channels; k += kVectors * kLanes)
        compute_channels<kVectors, false>(o_, taps_, pixels_, size_, k, kLanes);
      for (; k < channels; k += kLanes)  // the last ones may be computed twice
        compute_channels<1, false>(o_, taps_, pixels_, size_, std::min(k, channels - kLanes), kLanes);
    }
    size_ = 0;
  }

 private:
  void list_taps() {
    const ci_window& w = o_.window;
    Tap* tap = room_;
    for (int64_t y = y_.first; y < y_.last; ++y)
      for (int64_t x = x_.first; x < x_.last; ++x)
        *tap++ = {(y * w.dilation_y * w.in_width + x * w.dilation_x) * o_.p.in_pitch,
                  (y * w.kernel_x + x) * o_.channels};
    taps_ = {room_, int(tap - room_), o_.factor(y_, x_)};
  }

  const Operator& o_;
  Tap* room_;
  Inside y_, x_;
  Taps taps_;
  int size_ = 0;
  Pixel<typename Operator::Value> pixels_[kBatch];
};

// First and last + 1 output position along an axis whose window lies inside the image.
struct Interior {
  int first, last;

  Interior(int size, int kernel, int stride, int dilation, int pad)
      : first((pad + stride - 1) / stride), last((size - 1 - (kernel - 1) * dilation + pad + stride) / stride) {}
  bool has(int position) const { return first <= position && position < last; }
};

template <class Operator>
void compute_rows(const Operator& o, const ci_rows& rows, int64_t pitch, Tap* room) {
  using Value = typename Operator::Value;
  const ci_window& w = o.window;
  const auto inside_y = [&](int oy) {
    return Inside(oy * w.stride_y - w.pad_y, w.dilation_y, w.kernel_y, w.in_height);
  };
  const auto inside_x = [&](int ox) {
    return Inside(ox * w.stride_x - w.pad_x, w.dilation_x, w.kernel_x, w.in_width);
  };
  const Interior interior_y(w.in_height, w.kernel_y, w.stride_y, w.dilation_y, w.pad_y);
  const Interior interior_x(w.in_width, w.kernel_x, w.stride_x, w.dilation_x, w.pad_x);
  const Inside whole_y = inside_y(interior_y.first), whole_x = inside_x(interior_x.first);
  Batch<Operator> whole(o, room, whole_y, whole_x), border(o, room + w.kernel_y * w.kernel_x, whole_y, whole_x);
  const int64_t step_y = int64_t(w.stride_y) * w.in_width * o.p.in_pitch, step_x = w.stride_x * o.p.in_pitch;
  const Value* corner = reinterpret_cast<const Value*>(o.p.in) - (int64_t(w.pad_y) * w.in_width + w.pad_x) * o.p.in_pitch;
  int oy = 0, begin = 0;  // of the line of the image that the last row was on
  for (int i = 0; i < rows.count; ++i) {
    const int row = rows.rows[i];
    if (unsigned(row - begin) >= unsigned(w.out_width)) {
      oy = row / w.out_width;
      begin = oy * w.out_width;
    }
    const int ox = row - begin;
    const Pixel<Value> pixel{corner + oy * step_y + ox * step_x, rows.to[i] * pitch, row};
    if (interior_y.has(oy) && interior_x.has(ox)) {
      whole.add(pixel);
    } else {
      border.use(inside_y(oy), inside_x(ox));
      border.add(pixel);
    }
  }
  whole.compute();
  border.compute();
}

template <class Operator>
void compute_all(const Operator& o, ci_threads* threads, const ci_rows& rows, int64_t pitch) {
  const int taps = o.window.kernel_y * o.window.kernel_x;
  for_spans(threads, rows.count, int64_t(o.channels) * (taps + 1), [&](int first, int last, int worker) {
    Tap* const room = reinterpret_cast<Tap*>(ci::scratch(threads, worker, 2 * taps * sizeof(Tap) / sizeof(float)));
    compute_rows(o, {rows.rows + first, rows.to + first, last - first}, pitch, room);
  });
}

}  // namespace
}  // namespace CI_ISA
