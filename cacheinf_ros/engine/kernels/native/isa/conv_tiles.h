// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution of listed output pixels by matrix tiles (AMX), on the blocks of conv_runs.h: up to 16 output pixels times
// 64 bytes of their inputs times 16 output channels per instruction, and inputs are read where they lie.
//
// A run is multiplied in steps of equally many quads. They never reach behind the run, where there may be anything: the
// last step begins so early that it ends with it, and weights of what the step before has multiplied are zero there.
// (An infinite input becomes NaN by that, in every frame alike.)
// Weights: [group][panel][run][step][quad][kPanel][4 bytes].
//
// In assembler, which must know the instructions (binutils 2.35): the rest of the file is for processors without them.
// All output pixels are computed this way, however few there are, so that they do not depend on how many there are.
#pragma once

#include "conv_runs.h"

#if defined(__AVX512F__)
namespace CI_ISA {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileQuads = CI_TILE_QUADS;     // of a row: 64 bytes
constexpr int kTileBytes = kTileRows * 64;
constexpr int kBlocksAtOnce = 2;              // whose products share the weights in tiles
constexpr int64_t kInputBytes = 24 * 1024;    // of blocks that are multiplied with a panel of weights one after another
// Tiles 0 to 3 hold sums, of two blocks times two halves of a panel; 4 and 5 inputs, 6 and 7 weights.

#define CI_TILE_LOAD(tile, from, step) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(int64_t(step)) : "memory")
#define CI_TILE_STORE(tile, to) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(int64_t(kTileBytes / kTileRows)) : "memory")

// How many rows and bytes of a row each tile has: palette 1.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  // first, second: output pixels of two blocks.
  TileShapes(int first, int second, int step_quads) {
    const auto shape = [&](int tile, int count, int quads) {
      rows[tile] = uint8_t(count);
      row_bytes[tile] = uint16_t(quads * kQuad);
    };
    for (int half : {0, 1}) {
      shape(half, first, kTileQuads);
      shape(2 + half, second, kTileQuads);
      shape(6 + half, step_quads, kTileQuads);
    }
    shape(4, first, step_quads);
    shape(5, second, step_quads);
  }
};

inline void set_tiles(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
inline void release_tiles() { asm volatile("tilerelease"); }

// A run of a block, wherever it lies.
template <class Format>
inline Run run_of(const Job<Format>& job, const Block& block, int i) {
  if (block.count == job.runs) return block.runs[i];
  return {block.runs[0].from + int64_t(i) * job.run_quads * kQuad, block.runs[0].step};  // packed
}

// Multiplies one block or two with a half of a panel or both. sums: [blocks][halves][kTileBytes].
template <class Format, bool TWO, bool WIDE>
void multiply_tiles(const Job<Format>& job, const Block* blocks, const uint8_t* weight, const uint8_t* bias,
                    uint8_t* sums) {
  CI_TILE_LOAD(0, bias, 0);
  if (WIDE) CI_TILE_LOAD(1, bias + 64, 0);
  if (TWO) CI_TILE_LOAD(2, bias, 0);
  if (TWO && WIDE) CI_TILE_LOAD(3, bias + 64, 0);
  const int64_t step_bytes = job.step_quads * kQuad;
  const int64_t last_at = std::max<int64_t>(0, job.run_values * int64_t(sizeof(typename Format::Value)) - step_bytes);
  for (int i = 0; i < job.runs; ++i) {
    const Run first = run_of(job, blocks[0], i), second = run_of(job, blocks[TWO], i);
    for (int s = 0; s < job.steps; ++s) {
      const int64_t at = std::min(s * step_bytes, last_at);
      CI_TILE_LOAD(6, weight, kPanel * kQuad);
      CI_TILE_LOAD(4, first.from + at, first.step);
      Format::template tile_dot<0, 4, 6>();
      if (WIDE) {
        CI_TILE_LOAD(7, weight + 64, kPanel * kQuad);
        Format::template tile_dot<1, 4, 7>();
      }
      if (TWO) {
        CI_TILE_LOAD(5, second.from + at, second.step);
        Format::template tile_dot<2, 5, 6>();
        if (WIDE) Format::template tile_dot<3, 5, 7>();
      }
      weight += step_bytes * kPanel;
    }
  }
  CI_TILE_STORE(0, sums);
  if (WIDE) CI_TILE_STORE(1, sums + kTileBytes);
  if (TWO) CI_TILE_STORE(2, sums + 2 * kTileBytes);
  if (TWO && WIDE) CI_TILE_STORE(3, sums + 3 * kTileBytes);
}

// Stores the sums of `size` output pixels, of a half of a panel.
template <class Format>
void finish_tile(const Job<Format>& job, int start, int size, int64_t channel, int width, const uint8_t* sums) {
  using Sum = typename Format::Sum;
  const auto& c = *job.conv;
  const auto sum_of_row = [&](int r) { return *reinterpret_cast<const Sum*>(sums + r * kTileBytes / kTileRows); };
  if (width < kLanes || !is_common<Format>(c)) {
    for (int r = 0; r < size; ++r) finish_part(job, start + r, channel, std::min(width, kLanes), sum_of_row(r));
    return;
  }
  const auto bounds = Format::bounds(c);
  const Vector factor = Format::factor(c, channel, kLanes);
  for (int r = 0; r < size; ++r) {
    Vector value = Format::value(sum_of_row(r), factor);
    if (c.residual) value += Format::residual(c, job.rows[start + r], channel, kLanes);
    Format::store_narrow(c, job.out, job.to[start + r] * job.pitch + channel, bounds.of(value));
  }
}

// One task: a span of pixel blocks times a share of the weight panels, for every channel group.
template <class Format>
void run_tiles_task(void* context, int task, int worker) {
  const Job<Format>& job = *static_cast<Job<Format>*>(context);
  const auto& c = *job.conv;
  const auto* in = reinterpret_cast<const typename Format::Value*>(c.in);
  const auto [first, last, from, to] = TaskShare(job, task);
  const Space space(job, Format::outside(c), ci::scratch(job.threads, worker, (Space::bytes(job) + 3) / 4));
  alignas(64) uint8_t sums[kBlocksAtOnce * 2 * kTileBytes];
  alignas(64) typename Format::Sum bias[2];
  const auto size_of = [&](int b) { return std::min(job.block, job.count - b * job.block); };
  int set_for = -1;  // the sizes of two blocks for which tiles are shaped
  for (int group = 0; group < c.groups; ++group)
    for (int chunk = first; chunk < last; chunk += job.chunk) {
      const int end = std::min(chunk + job.chunk, last);
      for (int b = chunk; b < end; ++b) prepare(job, in + int64_t(group) * c.in_channels, b, b - chunk, space);
      for (int panel = from; panel < to; ++panel) {
        const int width = std::min(kPanel, c.out_channels - panel * kPanel);
        const uint8_t* weight = bytes_of(c.weight) + (int64_t(group) * job.panels + panel) * job.panel_bytes;
        const int64_t channel = int64_t(group) * c.out_channels + panel * kPanel;
        for (int half : {0, 1}) {
          const int lanes = std::min(kLanes, width - half * kLanes);
          bias[half] = lanes > 0 ? load_part(c.bias + channel + half * kLanes, lanes) : typename Format::Sum{};
        }
        const bool wide = width > kLanes;
        for (int b = chunk; b < end; b += kBlocksAtOnce) {
          const bool two = b + 1 < end;
          const int size = size_of(b), second = two ? size_of(b + 1) : size;
          if (const int set = size * (kTileRows + 1) + second; set != set_for) {
            set_tiles(TileShapes(size, second, job.step_quads));
            set_for = set;
          }
          const auto product = two ? (wide ? multiply_tiles<Format, true, true> : multiply_tiles<Format, true, false>)
                                    : (wide ? multiply_tiles<Format, false, true> : multiply_tiles<Format, false, false>);
          product(job, space.blocks + (b - chunk), weight, bytes_of(bias), sums);
          for (int i = 0; i <= two; ++i)
            for (int half = 0; half <= wide; ++half)
              finish_tile(job, (b + i) * job.block, i ? second : size, channel + half * kLanes, width - half * kLanes,
                          sums + (2 * i + half) * kTileBytes);
        }
      }
    }
  release_tiles();
}

template <class Format>
void run_tiles(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  Job<Format> job = make_job<Format>(threads, params, rows, out, pitch, kTileRows);
  job.steps = ci_tile_steps(job.run_values, Format::kTogether);
  job.step_quads = (job.run_values + job.steps * Format::kTogether - 1) / (job.steps * Format::kTogether);
  job.packs = job.step_quads * Format::kTogether > job.run_values;
  job.panel_bytes = int64_t(job.runs) * job.steps * job.step_quads * kQuad * kPanel;
  const int64_t fits = std::max<int64_t>(kBlocksAtOnce, kInputBytes / Space::block_bytes(job));
  const int spans = divide(job, false, fits, kBlocksAtOnce);
  ci::parallel_for(threads, spans * job.panel_groups, run_tiles_task<Format>, &job);
}

}  // namespace
}  // namespace CI_ISA
#endif
