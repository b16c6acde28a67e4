// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Sums of products of bytes.
#pragma once

#include "vectors.h"

namespace CI_ISA {
namespace {

// Adds the products of four levels, the same in all lanes, with four weights per lane. On x86 in assembler: the rest of
// the file is compiled for processors without these instructions.
struct ByteDot {
#if defined(__AVX512F__) || defined(__AVX2__)
  static constexpr int kRows = kLanes == 16 ? 14 : 6;  // of a register tile: 28 of 32 registers hold sums
  static constexpr bool kShifts = false;               // whether it takes levels for 128 less than they are
  static Bits add(Bits sum, Bits levels, Bits weights) {
#if defined(__AVX512F__)
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(levels), "v"(weights));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(levels), "x"(weights));
#endif
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

#if defined(__SSE2__)
typedef int16_t Words __attribute__((vector_size(sizeof(Bits))));
typedef uint16_t UnsignedWords __attribute__((vector_size(sizeof(Bits))));
#endif

// The products of whole numbers that both fit into 16 bits, one of them without a sign. On x86 the products of a lane's
// two halves, added.
#if defined(__AVX512F__)
inline Bits product(Bits a, Bits b) { return (Bits)_mm512_maskz_madd_epi16(~__mmask16(0), (__m512i)a, (__m512i)b); }
#elif defined(__AVX2__)
inline Bits product(Bits a, Bits b) { return (Bits)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
#elif defined(__SSE2__)
inline Bits product(Bits a, Bits b) { return (Bits)_mm_madd_epi16((__m128i)a, (__m128i)b); }
#else
inline Bits product(Bits a, Bits b) { return a * b; }
#endif

// The same as ByteDot by products of 16 bits: nothing saturates, as it could with products of bytes. On x86 pairs of them
// are added.
struct Pairs {
  static constexpr bool kShifts = false;
#if defined(__SSE2__)
  static constexpr int kRows = kLanes == 16 ? 12 : 4;
  static Bits add(Bits sum, Bits levels, Bits weights) {
    asm("" : "+v"(levels));  // otherwise GCC shifts them before they fill all lanes, which takes longer
    const Words w = (Words)weights;
    const Bits low = product((Bits)((Words)levels & 255), (Bits)(w << 8 >> 8));
    const Bits high = product((Bits)((UnsignedWords)levels >> 8), (Bits)(w >> 8));
    return sum + low + high;
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
