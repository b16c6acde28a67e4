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

// The same where the output has one pixel, as of a linear layer. No other rows fill the processor's pipeline, and nothing
// but the depth is left to sum over: products go to kParts running sums in turn, which hides the latency of an addition
// and loses fewer digits.
template <int VECTORS>
void multiply_pixel(const Job& job, int start, const float* packed, const float* weight, int64_t channel, int width) {
  constexpr int kParts = 4;
  Vector sums[1][VECTORS];
  begin<1, VECTORS>(job, start, channel, width, sums);
  for (int block = 0; block < job.depth; block += kSumDepth) {
    Vector parts[kParts][VECTORS] = {};
    const int end = std::min(block + kSumDepth, job.depth);
    for (int depth = block; depth < end; depth += kParts) {
      for (int k = 0; k < kParts; ++k, weight += kColumns)
        for (int v = 0; v < VECTORS; ++v) {
          parts[k][v] += all(packed[k]) * *reinterpret_cast<const Vector*>(weight + v * kLanes);
          __builtin_prefetch(weight + kAhead + v * kLanes);
        }
      packed += kParts;
    }
    for (int v = 0; v < VECTORS; ++v) sums[0][v] += (parts[0][v] + parts[1][v]) + (parts[2][v] + parts[3][v]);
  }
  finish<1, VECTORS>(job, start, channel, width, sums);
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

struct FloatsOfAPixel : Floats {
  static constexpr Table<Multiply> kTable = {{nullptr, multiply_pixel<1>}, {nullptr, multiply_pixel<2>}};
};

}  // namespace

const int kConvColumns = kColumns;

void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (has_one_pixel(*static_cast<const ci_conv*>(params))) run_packed<FloatsOfAPixel>(threads, params, rows, out, pitch);
  else run_packed<Floats>(threads, params, rows, out, pitch);
}

}  // namespace CI_ISA
