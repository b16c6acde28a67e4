// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Sums of products of bytes.
#pragma once

#include "vectors.h"

namespace CI_ISA {
namespace {

// Adds the products of four levels, the same in all lanes, with four weights per lane. On x86 in assembler: the rest of
// the file is compiled for processors without these instructions.
struct ByteDot {
#if defined(__AVX512F__)
  static constexpr int kRows = 14;  // of a register tile: 28 of 32 registers hold sums
  static constexpr bool kShifts = false;  // whether it takes levels for 128 less than they are
  static Bits add(Bits sum, Bits levels, Bits weights) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(levels), "v"(weights));
    return sum;
  }
#elif defined(__AVX2__)
  static constexpr int kRows = 6;
  static constexpr bool kShifts = false;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(levels), "x"(weights));
    return sum;
  }
#elif defined(__ARM_FEATURE_MATMUL_INT8)
  static constexpr int kRows = 8;
  static constexpr bool kShifts = false;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    return (Bits)vusdotq_s32((int32x4_t)sum, (uint8x16_t)levels, (int8x16_t)weights);
  }
#elif defined(__ARM_FEATURE_DOTPROD)  // multiplies bytes that both have a sign
  static constexpr int kRows = 8;
  static constexpr bool kShifts = true;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    const int8x16_t shifted = (int8x16_t)veorq_u8((uint8x16_t)levels, vdupq_n_u8(128));
    return (Bits)vdotq_s32((int32x4_t)sum, shifted, (int8x16_t)weights);
  }
#else
  static constexpr int kRows = 1;
  static constexpr bool kShifts = false;
  static Bits add(Bits sum, Bits, Bits) { return sum; }  // never called: has_byte_dot says so
#endif
};

// The same as ByteDot by products of 16 bits: nothing saturates, as it could with products of bytes. On x86 pairs of them
// are added.
struct Pairs {
  static constexpr bool kShifts = false;
#if defined(__AVX512F__)
  static constexpr int kRows = 12;
  static __m512i even(__m512i v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
  static Bits add(Bits sum, Bits levels, Bits weights) {
    const __m512i a = (__m512i)levels, w = (__m512i)weights;
    const __m512i low = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(255)), even(w));
    const __m512i high = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(w, 8));
    return sum + (Bits)low + (Bits)high;
  }
#elif defined(__AVX2__)
  static constexpr int kRows = 4;
  static __m256i even(__m256i v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
  static Bits add(Bits sum, Bits levels, Bits weights) {
    const __m256i a = (__m256i)levels, w = (__m256i)weights;
    const __m256i low = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)), even(w));
    const __m256i high = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(w, 8));
    return sum + (Bits)low + (Bits)high;
  }
#elif defined(__SSE2__)
  static constexpr int kRows = 4;
  static __m128i even(__m128i v) { return _mm_srai_epi16(_mm_slli_epi16(v, 8), 8); }
  static Bits add(Bits sum, Bits levels, Bits weights) {
    const __m128i a = (__m128i)levels, w = (__m128i)weights;
    const __m128i low = _mm_madd_epi16(_mm_and_si128(a, _mm_set1_epi16(255)), even(w));
    const __m128i high = _mm_madd_epi16(_mm_srli_epi16(a, 8), _mm_srai_epi16(w, 8));
    return sum + (Bits)low + (Bits)high;
  }
#elif defined(__aarch64__)
  static constexpr int kRows = 8;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    const int16x4_t a = (int16x4_t)vget_low_u16(vmovl_u8(vget_low_u8((uint8x16_t)levels)));
    const auto byte = [&](int shift) { return vmovn_s32((int32x4_t)(weights << (24 - shift) >> 24)); };
    int32x4_t total = (int32x4_t)sum;
    total = vmlal_lane_s16(total, byte(0), a, 0);
    total = vmlal_lane_s16(total, byte(8), a, 1);
    total = vmlal_lane_s16(total, byte(16), a, 2);
    return (Bits)vmlal_lane_s16(total, byte(24), a, 3);
  }
#else
  static constexpr int kRows = 4;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    for (int shift = 0; shift < 32; shift += 8) sum += (levels >> shift & 255) * (weights << (24 - shift) >> 24);
    return sum;
  }
#endif
};

inline bool processor_has_byte_dot() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512vnni");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avxvnni");
#elif defined(__ARM_FEATURE_DOTPROD)
  return true;  // dispatch.cpp has seen to it
#else
  return false;
#endif
}

}  // namespace
}  // namespace CI_ISA
