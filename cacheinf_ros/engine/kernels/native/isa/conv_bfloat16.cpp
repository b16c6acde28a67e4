// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution with inputs and weights rounded to bfloat16, sums in float32: twice the products per instruction.
#include "igemm.h"

namespace CI_ISA {

#if defined(__AVX512F__)
namespace {

typedef uint16_t Half;  // upper 16 bits of a float

// packed: [depth / 16][ROWS][16]; weight: [depth / 2][columns][2].
template <int ROWS, int VECTORS>
__attribute__((target("avx512bf16"))) void multiply_bfloat16(const Job& job, int start, const Half* packed,
                                                             const Half* weight, int64_t channel, int width) {
  Vector sums[ROWS][VECTORS];
  begin<ROWS, VECTORS>(job, start, channel, width, sums);
  for (int depth = 0; depth < job.depth; depth += kDepth, packed += ROWS * kDepth)
    for (int k = 0; k < kDepth; k += 2, weight += 2 * kColumns) {
      __m512bh w[VECTORS];
      for (int v = 0; v < VECTORS; ++v) {
        w[v] = (__m512bh)_mm512_load_si512(weight + 2 * v * kLanes);
        __builtin_prefetch(weight + kAhead + 2 * v * kLanes);
      }
      for (int r = 0; r < ROWS; ++r) {
        int32_t pair;
        std::memcpy(&pair, packed + r * kDepth + k, sizeof(pair));
        const __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = (Vector)_mm512_dpbf16_ps((__m512)sums[r][v], w[v], a);
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
    const __m512i bits = _mm512_loadu_si512(from);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
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
