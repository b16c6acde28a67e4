// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution in float32, inputs packed.
#include "igemm.h"

namespace CI_ISA {
namespace {

// Multiplies ROWS packed rows with a panel of VECTORS * lanes output channels.
template <int ROWS, int VECTORS>
void multiply(const Job& job, int start, const float* packed, const float* weight, int64_t channel, int width) {
  Vector sums[ROWS][VECTORS];
  begin<ROWS, VECTORS>(job, start, channel, width, sums);
  Vector totals[ROWS][VECTORS] = {};
  for (int block = 0; block < job.depth; block += kSumDepth) {
    if (block > 0)
      for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v) {
          totals[r][v] += sums[r][v];
          sums[r][v] = all(0);
        }
    const int end = std::min(block + kSumDepth, job.depth);
    for (int depth = block; depth < end; depth += kDepth) {
      for (int k = 0; k < kDepth; ++k) {
        Vector w[VECTORS];
        for (int v = 0; v < VECTORS; ++v) {
          w[v] = *reinterpret_cast<const Vector*>(weight + v * kLanes);
          __builtin_prefetch(weight + kAhead + v * kLanes);
        }
        weight += kColumns;
        for (int r = 0; r < ROWS; ++r) {
          const Vector a = all(packed[r * kDepth + k]);
          for (int v = 0; v < VECTORS; ++v) sums[r][v] += a * w[v];
        }
      }
      packed += ROWS * kDepth;
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) sums[r][v] += totals[r][v];
  finish<ROWS, VECTORS>(job, start, channel, width, sums);
}

using Multiply = void (*)(const Job&, int, const float*, const float*, int64_t, int);

template <int... R>
constexpr Table<Multiply> make_table(std::integer_sequence<int, R...>) {
  return {{nullptr, multiply<R + 1, 1>...}, {nullptr, multiply<R + 1, 2>...}};
}

struct Floats {
  using Value = float;
  static constexpr Table<Multiply> kTable = make_table(std::make_integer_sequence<int, kMaxRows>{});
  static void put(float* to, const float* from) { std::memcpy(to, from, kDepth * sizeof(float)); }
};

}  // namespace

const int kConvColumns = kColumns;

void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run_packed<Floats>(threads, params, rows, out, pitch);
}

}  // namespace CI_ISA
