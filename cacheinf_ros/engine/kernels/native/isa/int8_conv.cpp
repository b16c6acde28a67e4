// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution on levels and int8_t weights, sums in int32_t. What the zero point adds to the sums is taken out by the bias.
#include "conv_tiles.h"
#include "int8_dot.h"
#include "int8_levels.h"

namespace CI_ISA {
namespace {

template <class Dot>
struct Levels : Dot {
  using Conv = ci_conv_int8;
  using Value = uint8_t;
  using Sum = Bits;
  static constexpr int kTogether = 4;
  static constexpr bool kReadsBehind = true;  // whatever it is, zero times it is zero

  static int outside(const Conv& c) { return c.in_zero; }
  static bool is_narrow(const Conv& c) { return c.out.scale != 0; }
  static const void* place(const Conv& c, const float* out, int64_t at) {
    return is_narrow(c) ? static_cast<const void*>(values_of<uint8_t>(out) + at) : out + at;
  }
  static const uint8_t* residual_place(const Conv& c, int64_t row, int64_t channel) {
    return c.residual + row * c.residual_pitch + channel;
  }
  static Vector factor(const Conv& c, int64_t channel, int width) { return load_part(c.multiplier + channel, width); }
  static Vector value(Bits sum, Vector factor) { return __builtin_convertvector(sum, Vector) * factor; }
  static Vector residual(const Conv& c, int64_t row, int64_t channel, int width) {
    return (load_part(residual_place(c, row, channel), width) - float(c.residual_zero)) * c.residual_factor;
  }
  static Vector activated(const Conv& c, Vector v, int64_t channel, int width) {
    return activate_in(c.activation, c.unit, v, channel, width);
  }
  static LevelBounds bounds(const Conv& c) { return level_bounds(c.activation, c.out.zero); }
  static void store_narrow(const Conv& c, float* out, int64_t at, Vector v) {
    store_whole(values_of<uint8_t>(out) + at, rounded(v, c.out.zero), kLanes);
  }
  static void store(const Conv& c, float* out, int64_t at, Vector v, int width) { store_as(c.out, out, at, v, width); }
#if defined(__AVX512F__)
  template <int SUMS, int INPUTS, int WEIGHTS>
  static void tile_dot() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUMS), "i"(INPUTS), "i"(WEIGHTS));
  }
#endif
};

}  // namespace

void conv_pairs(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<Levels<Pairs>>(threads, params, rows, out, pitch);
}

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)
void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<Levels<ByteDot>>(threads, params, rows, out, pitch);
}
#else
void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<Levels<Pairs>>(threads, params, rows, out, pitch);
}
#endif

void conv_tiles(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
#if defined(__AVX512F__)
  run_tiles<Levels<ByteDot>>(threads, params, rows, out, pitch);
#else
  conv(threads, params, rows, out, pitch);  // never called: ci_has_tiles says so
#endif
}

bool has_byte_dot() { return processor_has_byte_dot(); }

}  // namespace CI_ISA
