// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// From sums and floats to levels.
#pragma once

#include <cmath>

#include "int8_kernels.h"

namespace CI_ISA {
namespace {

// What levels lie between; NaN, which no level stands for, becomes the lowest, whatever the instruction set.
struct LevelBounds {
  Vector low, high;

  Vector of(Vector v) const { return smallest(largest(v, low), high); }
};

// The bounds of levels without their zero point.
inline LevelBounds level_bounds(int32_t zero) { return {all(float(-zero)), all(float(255 - zero))}; }

// Those of an activation and of levels at once.
inline LevelBounds level_bounds(const ci_activation& a, int32_t zero) {
  const LevelBounds levels = level_bounds(zero);
  const Bounds values = bounds_of(a);
  return {levels.of(values.low), levels.of(values.high)};
}

// Whole numbers nearest to levels, ties to even; `levels` without the zero point, within their bounds.
inline Bits rounded(Vector levels, int32_t zero) {
#if defined(__AVX512F__)
  return (Bits)_mm512_maskz_cvtps_epi32(kAll, (__m512)levels) + zero;
#elif defined(__AVX2__)
  return (Bits)_mm256_cvtps_epi32((__m256)levels) + zero;
#elif defined(__SSE2__)
  return (Bits)_mm_cvtps_epi32((__m128)levels) + zero;
#elif defined(__aarch64__)
  return (Bits)vcvtnq_s32_f32((float32x4_t)levels) + zero;
#else
  Bits whole;
  for (int i = 0; i < kLanes; ++i) whole[i] = int32_t(std::nearbyint(levels[i]));
  return whole + zero;
#endif
}

// Stores the first `width` whole numbers, of 0 to 255.
inline void store_whole(uint8_t* p, Bits whole, int width) {
#if defined(__AVX512F__)
  if (__builtin_constant_p(width >= kLanes) && width >= kLanes)
    return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(kAll, (__m512i)whole));
  _mm512_mask_cvtepi32_storeu_epi8(p, first_lanes(width), (__m512i)whole);
#else
  uint8_t lanes[kLanes];
#if defined(__AVX2__)
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)whole), _mm256_extracti128_si256((__m256i)whole, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(lanes), _mm_packus_epi16(words, words));
#elif defined(__aarch64__)
  const uint16x4_t words = vmovn_u32((uint32x4_t)whole);
  const uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
  std::memcpy(lanes, &bytes, sizeof(lanes));
#else
  for (int i = 0; i < kLanes; ++i) lanes[i] = uint8_t(whole[i]);
#endif
  if (width >= kLanes) std::memcpy(p, lanes, kLanes);
  else for (int i = 0; i < width; ++i) p[i] = lanes[i];
#endif
}

// Stores the first `width` levels; `levels` without the zero point.
inline void store_levels(uint8_t* p, Vector levels, int32_t zero, int width) {
  store_whole(p, rounded(level_bounds(zero).of(levels), zero), width);
}

// The activation of values in units of the result. Activations that are straight through zero, or bounds in those units,
// need not know the unit.
inline Vector activate_in(const ci_activation& a, float unit, Vector v, int64_t channel, int width) {
  switch (a.kind) {
    case CI_LINEAR:
    case CI_CLAMP:
    case CI_PRELU: return activate(a, v, channel, width);
    default: return activate_curved(a, v * unit) / unit;
  }
}

// The result of a convolution's sums, in its units: scaled, with the residual, activated.
inline Vector finished(const ci_conv_int8& c, Bits sums, int64_t row, int64_t channel, int width) {
  Vector v = __builtin_convertvector(sums, Vector) * load_part(c.multiplier + channel, width);
  if (!c.residual) return activate_in(c.activation, c.unit, v, channel, width);
  const Vector levels = load_part(c.residual + row * c.residual_pitch + channel, width);
  const Vector residual = (levels - float(c.residual_zero)) * c.residual_factor;
  return c.residual_last ? activate_in(c.activation, c.unit, v, channel, width) + residual
                         : activate_in(c.activation, c.unit, v + residual, channel, width);
}

// Values of `kind` at place `at` of a map, and their meaning.
inline Vector load_as(const ci_levels& kind, const float* in, int64_t at, int width) {
  if (kind.scale == 0) return load_part(in + at, width);
  return (load_part(reinterpret_cast<const uint8_t*>(in) + at, width) - float(kind.zero)) * kind.scale;
}

// Stores a result in units of what it stands for, at place `at` of a map of levels or floats.
inline void store_as(const ci_levels& kind, float* out, int64_t at, Vector v, int width) {
  if (kind.scale == 0) store_part(out + at, v, width);
  else store_levels(reinterpret_cast<uint8_t*>(out) + at, v, kind.zero, width);
}

}  // namespace
}  // namespace CI_ISA
