// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution of bfloat16 and weights rounded to it, sums in float32: twice the products per instruction, where the
// processor has it.
#include "conv_tiles.h"

namespace CI_ISA {
namespace {

// Adds the products of two bfloat16, the same in all lanes, with two weights per lane. On x86 in assembler: the rest of
// the file is compiled for processors without these instructions.
#if defined(__AVX512F__)
struct PairDot {
  static constexpr int kRows = 14;  // of a register tile: 28 of 32 registers hold sums
  static Vector add(Vector sum, Bits pair, Bits weights) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(pair), "v"(weights));
    return sum;
  }
  static void store(BFloat16* p, Vector v) {  // as CI_ISA::store, in one instruction
    __m256i rounded;
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
  }
};
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
struct PairDot {
  static constexpr int kRows = 12;
  static Vector add(Vector sum, Bits pair, Bits weights) {
    return (Vector)vbfdotq_f32((float32x4_t)sum, vreinterpretq_bf16_s32((int32x4_t)pair),
                               vreinterpretq_bf16_s32((int32x4_t)weights));
  }
  static void store(BFloat16* p, Vector v) { CI_ISA::store(p, v); }
};
#endif

// The same by products of floats, whose upper halves bfloat16 are.
struct Widened {
#if defined(__AVX512F__)
  static constexpr int kRows = 12;
#elif defined(__aarch64__)
  static constexpr int kRows = 10;
#else
  static constexpr int kRows = 4;
#endif
  static Vector add(Vector sum, Bits pair, Bits weights) {
    sum += (Vector)(pair << 16) * (Vector)(weights << 16);
    return sum + (Vector)(pair & -65536) * (Vector)(weights & -65536);
  }
  static void store(BFloat16* p, Vector v) { CI_ISA::store(p, v); }
};

template <class Dot>
struct BFloat16Format : Dot {
  using Conv = ci_conv;
  using Value = BFloat16;
  using Sum = Vector;
  static constexpr int kTogether = 2;
  static constexpr bool kShifts = false;
  static constexpr bool kReadsBehind = false;  // zero times what is no number is none

  static int outside(const Conv&) { return 0; }
  static bool is_narrow(const Conv& c) { return !c.writes_floats; }
  static const void* place(const Conv& c, const float* out, int64_t at) {
    return is_narrow(c) ? static_cast<const void*>(values_of<BFloat16>(out) + at) : out + at;
  }
  static const BFloat16* residual_place(const Conv& c, int64_t row, int64_t channel) {
    return values_of<BFloat16>(c.residual) + row * c.residual_pitch + channel;
  }
  static Vector factor(const Conv&, int64_t, int) { return Vector{}; }
  static Vector value(Vector sum, Vector) { return sum; }
  static Vector residual(const Conv& c, int64_t row, int64_t channel, int width) {
    return load_part(residual_place(c, row, channel), width);
  }
  static Vector activated(const Conv& c, Vector v, int64_t channel, int width) {
    return activate(c.activation, v, channel, width);
  }
  static Bounds bounds(const Conv& c) { return bounds_of(c.activation); }
  static void store_narrow(const Conv&, float* out, int64_t at, Vector v) {
    Dot::store(values_of<BFloat16>(out) + at, v);
  }
  static void store(const Conv& c, float* out, int64_t at, Vector v, int width) {
    if (c.writes_floats) store_part(out + at, v, width);
    else store_part(values_of<BFloat16>(out) + at, v, width);
  }
#if defined(__AVX512F__)
  template <int SUMS, int INPUTS, int WEIGHTS>
  static void tile_dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUMS), "i"(INPUTS), "i"(WEIGHTS));
  }
#endif
};

}  // namespace

void conv_bfloat16_widened(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<BFloat16Format<Widened>>(threads, params, rows, out, pitch);
}

#if defined(__AVX512F__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
void conv_bfloat16(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<BFloat16Format<PairDot>>(threads, params, rows, out, pitch);
}
const bool kHasBfloat16 = true;
#else
void conv_bfloat16(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  conv_bfloat16_widened(threads, params, rows, out, pitch);
}
const bool kHasBfloat16 = false;
#endif

void conv_bfloat16_tiles(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
#if defined(__AVX512F__)
  run_tiles<BFloat16Format<PairDot>>(threads, params, rows, out, pitch);
#else
  conv_bfloat16(threads, params, rows, out, pitch);  // never called: ci_has_tiles says so
#endif
}

}  // namespace CI_ISA
