// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Vectors of the instruction set that is compiled for, and functions on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef CACHEINF_ISA
#define CACHEINF_ISA base
#endif
#define CI_JOIN_(a, b) a##b
#define CI_JOIN(a, b) CI_JOIN_(a, b)
// Namespaces of everything that is compiled per instruction set. Kernels on levels have one of their own: in theirs, also
// in the functions that both have, no product is fused with a sum, so that all instruction sets round alike.
#define CI_INT8 CI_JOIN(int8_, CACHEINF_ISA)
#if defined(CI_ROUND_ALIKE)
#define CI_ISA CI_INT8
#else
#define CI_ISA CI_JOIN(isa_, CACHEINF_ISA)
#endif

namespace CI_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(int32_t))));
typedef float LooseVector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

inline Vector load(const float* p) { return *reinterpret_cast<const LooseVector*>(p); }
inline void store(float* p, Vector v) { *reinterpret_cast<LooseVector*>(p) = v; }
inline Vector all(float v) { return v - Vector{}; }

// The upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

typedef uint16_t Halves __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(2)));

inline Vector load(const BFloat16* p) {
#if defined(__AVX512F__)  // of which compilers make five instructions
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return (Vector)((Bits)_mm512_cvtepu16_epi32(halves) << 16);
#else
  return (Vector)(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), Bits) << 16);
#endif
}

// Rounds to the nearest one, of two to the even one.
inline void store(BFloat16* p, Vector v) {
  typedef uint32_t Unsigned __attribute__((vector_size(kLanes * sizeof(uint32_t))));
  const Unsigned bits = (Unsigned)v;
  *reinterpret_cast<Halves*>(p) = __builtin_convertvector((bits + 0x7fff + (bits >> 16 & 1)) >> 16, Halves);
}

// Of NaN and another value the second argument, so that values stay NaN where bounds come first.
#if defined(__AVX512F__)  // where compilers make three instructions of a > b ? a : b
constexpr __mmask16 kAll = 0xffff;  // GCC 12 warns of the forms without a mask
inline Vector largest(Vector a, Vector b) { return (Vector)_mm512_maskz_max_ps(kAll, (__m512)a, (__m512)b); }
inline Vector smallest(Vector a, Vector b) { return (Vector)_mm512_maskz_min_ps(kAll, (__m512)a, (__m512)b); }
#elif defined(__AVX2__)
inline Vector largest(Vector a, Vector b) { return (Vector)_mm256_max_ps((__m256)a, (__m256)b); }
inline Vector smallest(Vector a, Vector b) { return (Vector)_mm256_min_ps((__m256)a, (__m256)b); }
#elif defined(__SSE2__)
inline Vector largest(Vector a, Vector b) { return (Vector)_mm_max_ps((__m128)a, (__m128)b); }
inline Vector smallest(Vector a, Vector b) { return (Vector)_mm_min_ps((__m128)a, (__m128)b); }
#else
inline Vector largest(Vector a, Vector b) { return a > b ? a : b; }
inline Vector smallest(Vector a, Vector b) { return a < b ? a : b; }
#endif

inline float sum_of(Vector v) {
  float sums[kLanes];
  store(sums, v);
  for (int n = kLanes / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) sums[i] += sums[i + n];
  return sums[0];
}

inline float largest_of(Vector v) {
  float lanes[kLanes];
  store(lanes, v);
  return *std::max_element(lanes, lanes + kLanes);
}

#if defined(__AVX512F__)
typedef __mmask16 Mask;
inline Mask first_lanes(int width) { return Mask(0xffffu >> (kLanes - std::min(width, kLanes))); }
#elif defined(__AVX2__)
typedef __m256i Mask;
inline Mask first_lanes(int width) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(width), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

// The first `width` lanes; the others are zero.
inline Vector load_part(const float* p, int width) {
  if (__builtin_constant_p(width >= kLanes) && width >= kLanes) return load(p);
#if defined(__AVX512F__)
  return (Vector)_mm512_maskz_loadu_ps(first_lanes(width), p);
#elif defined(__AVX2__)
  return (Vector)_mm256_maskload_ps(p, first_lanes(width));
#else
  if (width >= kLanes) return load(p);
  float lanes[kLanes] = {};
  for (int i = 0; i < width; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}

inline Vector load_part(const BFloat16* p, int width) {
  if (width >= kLanes) return load(p);
#if defined(__AVX512F__)
  return (Vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(width), p)), 16);
#else
  BFloat16 lanes[kLanes] = {};
  for (int i = 0; i < width; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}

// Levels as whole numbers; the lanes beyond the first `width` are zero.
inline Bits load_whole(const uint8_t* p, int width) {
#if defined(__AVX512F__)
  if (__builtin_constant_p(width >= kLanes) && width >= kLanes)
    return (Bits)_mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return (Bits)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first_lanes(width), p));
#else
  uint8_t lanes[kLanes] = {};
  if (width >= kLanes) std::memcpy(lanes, p, kLanes);
  else for (int i = 0; i < width; ++i) lanes[i] = p[i];
#if defined(__AVX2__)
  return (Bits)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
#elif defined(__aarch64__)
  uint32_t four;
  std::memcpy(&four, lanes, sizeof(four));
  return (Bits)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
#else
  Bits whole;
  for (int i = 0; i < kLanes; ++i) whole[i] = lanes[i];
  return whole;
#endif
#endif
}

// Levels as floats.
inline Vector load_part(const uint8_t* p, int width) { return __builtin_convertvector(load_whole(p, width), Vector); }

inline Bits load_part(const int32_t* p, int width) { return (Bits)load_part(reinterpret_cast<const float*>(p), width); }

inline void store_part(float* p, Vector v, int width) {
  if (width >= kLanes) return store(p, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, first_lanes(width), (__m512)v);
#else
  float lanes[kLanes];
  store(lanes, v);
  for (int i = 0; i < width; ++i) p[i] = lanes[i];
#endif
}

inline void store_part(BFloat16* p, Vector v, int width) {
  if (width >= kLanes) return store(p, v);
  BFloat16 lanes[kLanes];
  store(lanes, v);
  std::memcpy(p, lanes, width * sizeof(BFloat16));
}

// Copies a row; shorter to start than memcpy.
inline void copy(float* to, const float* from, int count) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store_part(to + i, load_part(from + i, count - i), count - i);
}

inline void copy(uint8_t* to, const uint8_t* from, int count) {
  constexpr int kBytes = 16;
  if (count < kBytes) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int i = 0; i < count; i += kBytes) {  // the last ones may be copied twice
    const int at = std::min(i, count - kBytes);
    std::memcpy(to + at, from + at, kBytes);
  }
}

inline void copy(BFloat16* to, const BFloat16* from, int count) {
  copy(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from), int(count * sizeof(BFloat16)));
}

// The values of a map, which structures and signatures call floats whatever they are.
template <class Value>
inline const Value* values_of(const float* map) {
  return reinterpret_cast<const Value*>(map);
}
template <class Value>
inline Value* values_of(float* map) {
  return reinterpret_cast<Value*>(map);
}

// The activations that take more than a few instructions. Not inline: each use would be hundreds of bytes.
Vector activate_curved(const ci_activation& a, Vector v);

// The activation of `width` channels from `channel` on.
inline Vector activate(const ci_activation& a, Vector v, int64_t channel, int width) {
  switch (a.kind) {
    case CI_LINEAR: return v;
    case CI_CLAMP: return smallest(all(a.high), largest(all(a.low), v));
    case CI_PRELU: return largest(all(0), v) + smallest(all(0), v) * load_part(a.slope + channel, width);
    default: return activate_curved(a, v);
  }
}

// What values lie between.
struct Bounds {
  Vector low, high;

  Vector of(Vector v) const { return smallest(high, largest(low, v)); }
};

// Activations that only bound values, if at all.
inline bool only_bounds(const ci_activation& a) { return a.kind <= CI_CLAMP; }
inline Bounds bounds_of(const ci_activation& a) {
  const bool clamps = a.kind == CI_CLAMP;
  return {all(clamps ? a.low : -__builtin_inff()), all(clamps ? a.high : __builtin_inff())};
}

// Declared here, defined in the files beside: one per ci_kernel, or of float and of BFloat16 one each.
#define CI_KERNEL(name) void name(ci_threads*, const void* params, const ci_rows& rows, float* out, int64_t pitch)
#define CI_KERNELS_OF_VALUES(name) template <class Value> CI_KERNEL(name)
#define CI_INSTANTIATE(name) template CI_KERNEL(name<float>); template CI_KERNEL(name<BFloat16>)
CI_KERNEL(conv);
CI_KERNEL(conv_in_place);
CI_KERNEL(channel_softmax);
CI_KERNEL(conv_bfloat16);
CI_KERNEL(conv_bfloat16_widened);  // the same, without instructions for it
CI_KERNEL(conv_bfloat16_tiles);  // the same by matrix tiles, which add up in another order
CI_KERNEL(widen);  // from bfloat16 to floats; params: ci_select
CI_KERNEL(narrow);  // and back
CI_KERNELS_OF_VALUES(depthwise);
CI_KERNELS_OF_VALUES(pool);
CI_KERNELS_OF_VALUES(elementwise);
CI_KERNELS_OF_VALUES(channel_norm);
CI_KERNELS_OF_VALUES(resample);
CI_KERNELS_OF_VALUES(pixel_shuffle);
CI_KERNELS_OF_VALUES(select);
CI_KERNELS_OF_VALUES(global_mean);
extern const int kConvColumns;  // output channels of the convolution's register tile
extern const bool kHasBfloat16;

// how: of ci_combine.
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

}  // namespace CI_ISA
