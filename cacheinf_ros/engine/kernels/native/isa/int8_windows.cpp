// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Pooling and depthwise convolution on levels.
#include "int8_dot.h"
#include "int8_levels.h"
#include "windows.h"

namespace CI_ISA {
namespace {

#if defined(__AVX512F__)
inline Bits product(Bits a, Bits b) { return (Bits)_mm512_maskz_madd_epi16(~__mmask16(0), (__m512i)a, (__m512i)b); }
#elif defined(__AVX2__)
inline Bits product(Bits a, Bits b) { return (Bits)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
#elif defined(__SSE2__)
inline Bits product(Bits a, Bits b) { return (Bits)_mm_madd_epi16((__m128i)a, (__m128i)b); }
#else
inline Bits product(Bits a, Bits b) { return a * b; }
#endif

// Whether a product of bytes does more at once than one of whole numbers, of which NEON takes the sum too.
#if defined(__aarch64__)
constexpr bool kDotPays = false;
#else
constexpr bool kDotPays = true;
#endif

template <bool DOT>
struct Depthwise {
  using Value = uint8_t;
  using Sum = Bits;
  const ci_conv_int8& p;
  float* out;
  const ci_window& window = p.window;
  const int channels = p.groups;
  const int32_t* weights = reinterpret_cast<const int32_t*>(p.weight);
  const bool simple = false;

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
  float factor(const Inside&, const Inside&) const { return 1; }
  void store_simple(int64_t, Bits, const Taps&, int) const {}
  void store(const Pixel<uint8_t>& pixel, Bits sum, int64_t k, int width) const {
    store_as(p.out, out, pixel.out + k, finished(p, sum, pixel.row, k, width), width);
  }
};

struct Pool {
  using Value = uint8_t;
  using Sum = Bits;
  const ci_pool_int8& pooling;
  float* out;
  const ci_pool& p = pooling.pool;
  const ci_window& window = p.window;
  const int channels = p.channels;
  static constexpr bool simple = true;

  static Bits start(const Taps&, int64_t, int) { return Bits{}; }
  static Bits weight(int64_t, int) { return Bits{}; }
  static void store(const Pixel<uint8_t>&, Bits, int64_t, int) {}  // all is simple
  uint8_t* place(int64_t at) const { return reinterpret_cast<uint8_t*>(out) + at; }
};

struct Maximum : Pool {
  static Bits add(Bits sum, const uint8_t* levels, int width, Bits) {
    const Bits whole = load_whole(levels, width);
    return whole > sum ? whole : sum;
  }
  static float factor(const Inside&, const Inside&) { return 1; }
  void store_simple(int64_t at, Bits sum, const Taps&, int width) const { store_whole(place(at), sum, width); }
};

struct Average : Pool {
  static Bits add(Bits sum, const uint8_t* levels, int width, Bits) { return sum + load_whole(levels, width); }
  float factor(const Inside& y, const Inside& x) const { return pooling.factor / averaged_pixels(p, y, x); }
  void store_simple(int64_t at, Bits sum, const Taps& taps, int width) const {
    const Vector levels = __builtin_convertvector(sum - taps.count * pooling.in_zero, Vector) * taps.factor;
    store_levels(place(at), levels, pooling.out_zero, width);
  }
};

}  // namespace

void pool(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_pool_int8& p = *static_cast<const ci_pool_int8*>(params);
  if (p.pool.average) compute_all(Average{{p, out}}, threads, rows, pitch);
  else compute_all(Maximum{{p, out}}, threads, rows, pitch);
}

// groups == channels, one filter each.
void depthwise(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_conv_int8& p = *static_cast<const ci_conv_int8*>(params);
  if (kDotPays && processor_has_byte_dot()) compute_all(Depthwise<true>{p, out}, threads, rows, pitch);
  else compute_all(Depthwise<false>{p, out}, threads, rows, pitch);
}

}  // namespace CI_ISA
