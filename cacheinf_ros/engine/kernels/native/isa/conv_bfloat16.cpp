// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution with inputs and weights rounded to bfloat16, sums in float32: twice the products per instruction.
#include "igemm.h"

namespace CI_ISA {

#if defined(__AVX512F__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
namespace {

typedef uint16_t Half;  // upper 16 bits of a float

// Pairs of halves, a pair per lane.
#if defined(__AVX512F__)
#define CI_TARGET __attribute__((target("avx512bf16")))
typedef __m512bh Pairs;
CI_TARGET inline Pairs load_pairs(const Half* p) { return (Pairs)_mm512_load_si512(p); }
CI_TARGET inline Pairs all_pairs(int32_t pair) { return (Pairs)_mm512_set1_epi32(pair); }
CI_TARGET inline Vector add_products(Vector sum, Pairs a, Pairs b) { return (Vector)_mm512_dpbf16_ps((__m512)sum, a, b); }
#else
#define CI_TARGET
typedef bfloat16x8_t Pairs;
inline Pairs load_pairs(const Half* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }
inline Pairs all_pairs(int32_t pair) { return vreinterpretq_bf16_s32(vdupq_n_s32(pair)); }
inline Vector add_products(Vector sum, Pairs a, Pairs b) { return (Vector)vbfdotq_f32((float32x4_t)sum, a, b); }
#endif

// packed: [depth / 16][ROWS][16]; weight: [depth / 2][columns][2].
template <int ROWS, int VECTORS>
CI_TARGET void multiply_bfloat16(const Job& job, int start, const Half* packed, const Half* weight, int64_t channel,
                                 int width) {
  Vector sums[ROWS][VECTORS];
  begin<ROWS, VECTORS>(job, start, channel, width, sums);
  for (int depth = 0; depth < job.depth; depth += kDepth, packed += ROWS * kDepth)
    for (int k = 0; k < kDepth; k += 2, weight += 2 * kColumns) {
      Pairs w[VECTORS];
      for (int v = 0; v < VECTORS; ++v) {
        w[v] = load_pairs(weight + 2 * v * kLanes);
        __builtin_prefetch(weight + kAhead + 2 * v * kLanes);
      }
      for (int r = 0; r < ROWS; ++r) {
        int32_t pair;
        std::memcpy(&pair, packed + r * kDepth + k, sizeof(pair));
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = add_products(sums[r][v], w[v], all_pairs(pair));
      }
    }
  finish<ROWS, VECTORS>(job, start, channel, width, sums);
}

using Multiply = void (*)(const Job&, int, const Half*, const Half*, int64_t, int);

template <int... R>
constexpr Table<Multiply> make_table(std::integer_sequence<int, R...>) {
  return {{nullptr, multiply_bfloat16<R + 1, 1>...}, {nullptr, multiply_bfloat16<R + 1, 2>...}};
}

struct Halves {
  using Value = Half;
  static constexpr Table<Multiply> kTable = make_table(std::make_integer_sequence<int, kMaxRows>{});

  // Rounds to nearest, ties to even.
  static void put(Half* to, const float* from) {
    uint32_t bits[kDepth];
    std::memcpy(bits, from, sizeof(bits));
    for (int i = 0; i < kDepth; ++i) to[i] = Half((bits[i] + 0x7fff + (bits[i] >> 16 & 1)) >> 16);
  }
};

}  // namespace

void conv_bfloat16(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run_packed<Halves>(threads, params, rows, out, pitch);
}
const bool kHasBfloat16 = true;
#else
void conv_bfloat16(ci_threads*, const void*, const ci_rows&, float*, int64_t) {}
const bool kHasBfloat16 = false;
#endif

}  // namespace CI_ISA
