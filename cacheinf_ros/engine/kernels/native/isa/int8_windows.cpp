// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Pooling and depthwise convolution on levels.
#include "int8_dot.h"
#include "int8_levels.h"
#include "windows.h"

namespace CI_ISA {
namespace {

// Whether a product of bytes does more at once than one of whole numbers, of which NEON takes the sum too.
#if defined(__aarch64__)
constexpr bool kDotPays = false;
#else
constexpr bool kDotPays = true;
#endif

template <bool DOT>
struct Depthwise : WindowOperator<ci_conv_int8, uint8_t, Bits> {
  const int32_t* weights = reinterpret_cast<const int32_t*>(p.weight);
  const bool simple = !p.residual && only_bounds(p.activation) && p.out.scale != 0;
  const LevelBounds bounds = level_bounds(p.activation, p.out.zero);

  // Only taps inside the image count, and only of them the zero point must be taken out.
  Bits start(const Taps& taps, int64_t k, int width) const {
    Bits sum{};
    for (const Tap* tap = taps.list; tap < taps.list + taps.count; ++tap) sum += weight(tap->weight + k, width);
    return load_part(p.bias + k, width) - sum * p.in_zero;
  }
  Bits weight(int64_t at, int width) const { return load_part(weights + at, width); }
  // Both fit into 16 bits, the level into 8, and the upper ones of a level are zero.
  static Bits add(Bits sum, const uint8_t* levels, int width, Bits weight) {
    const Bits whole = load_whole(levels, width);
    return DOT ? ByteDot::add(sum, whole, weight) : sum + product(whole, weight);
  }
  void store_simple(int64_t at, int64_t k, Bits sum, const Taps&, int width) const {
    const Vector value = __builtin_convertvector(sum, Vector) * load_part(p.multiplier + k, width);
    store_whole(values_of<uint8_t>(out) + at, rounded(bounds.of(value), p.out.zero), width);
  }
  void store(const Pixel<uint8_t>& pixel, Bits sum, int64_t k, int width) const {
    store_as(p.out, out, pixel.out + k, finished(p, sum, pixel.row, k, width), width);
  }
};

struct Pool : PoolOf<uint8_t, Bits> {
  const ci_pool_int8& pooling;

  static Bits start(const Taps&, int64_t, int) { return Bits{}; }
  uint8_t* place(int64_t at) const { return reinterpret_cast<uint8_t*>(out) + at; }
};

struct Maximum : Pool {
  static Bits add(Bits sum, const uint8_t* levels, int width, Bits) {
    const Bits whole = load_whole(levels, width);
    return whole > sum ? whole : sum;
  }
  void store_simple(int64_t at, int64_t, Bits sum, const Taps&, int width) const { store_whole(place(at), sum, width); }
};

struct Average : Pool {
  static Bits add(Bits sum, const uint8_t* levels, int width, Bits) { return sum + load_whole(levels, width); }
  float factor(const Inside& y, const Inside& x) const { return pooling.factor / averaged_pixels(p, y, x); }
  void store_simple(int64_t at, int64_t, Bits sum, const Taps& taps, int width) const {
    const Vector levels = __builtin_convertvector(sum - taps.count * pooling.in_zero, Vector) * taps.factor;
    store_levels(place(at), levels, pooling.out_zero, width);
  }
};

}  // namespace

void pool(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_pool_int8& p = *static_cast<const ci_pool_int8*>(params);
  const PoolOf<uint8_t, Bits> common{{p.pool, out}};
  if (p.pool.average) compute_all(Average{{common, p}}, threads, rows, pitch);
  else compute_all(Maximum{{common, p}}, threads, rows, pitch);
}

// groups == channels, one filter each.
void depthwise(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_conv_int8& p = *static_cast<const ci_conv_int8*>(params);
  if (kDotPays && processor_has_byte_dot()) compute_all(Depthwise<true>{{p, out}}, threads, rows, pitch);
  else compute_all(Depthwise<false>{{p, out}}, threads, rows, pitch);
}

}  // namespace CI_ISA
