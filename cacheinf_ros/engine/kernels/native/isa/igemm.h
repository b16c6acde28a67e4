// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution of listed output pixels as an indirect matrix product (as in XNNPACK's IGEMM and GotoBLAS).
//
// The neighbourhoods of a block of output pixels are gathered into a packed panel that stays in the cache and is
// multiplied with every panel of the weights; sums stay in registers over the whole depth. So nothing of the
// size of an im2col matrix is ever written, and a sparse set of pixels runs at the speed of a dense one.
// A Format says how packed values are stored and multiplied: conv.cpp.
#pragma once

#include <utility>

#include "conv_tasks.h"

namespace CI_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kMaxRows = 14;  // 28 of 32 registers hold sums
#elif defined(__aarch64__)
constexpr int kMaxRows = 12;
#else
constexpr int kMaxRows = 6;
#endif
constexpr int kColumns = 2 * kLanes;
constexpr int kDepth = 16;                   // values of a row that lie together in a packed panel
constexpr int64_t kLargeBytes = 640 * 1024;  // of packed rows that leave room for a panel of weights in a 1 MiB L2
constexpr int64_t kFewWeights = 512 * 1024;  // bytes that may be read from the L2 for every block of rows
constexpr int kSumDepth = 512;               // products in one running sum: longer ones lose digits
constexpr int kAhead = 2048;                 // values of weights fetched ahead: they are many and used once per block

struct Job {
  const ci_conv* conv;
  const int32_t *rows, *to;
  float* out;
  int64_t pitch;
  int count, depth;         // depth: taps * channels, rounded up to kDepth
  int block, blocks;        // output pixels per register block, blocks in all
  int chunk;                // blocks packed together
  int span;                 // blocks of a task
  int panels, panel_groups; // weight panels per group of channels; how many tasks share them
  ci_threads* threads;
};

// Whether the output has one pixel only, as of a linear layer. Sums are then divided otherwise, whatever rows are listed.
inline bool has_one_pixel(const ci_conv& c) { return c.window.out_height == 1 && c.window.out_width == 1; }

// Copies the neighbourhood of one output pixel behind one another; outside the image lie zeros.
inline void gather(const ci_conv& c, const float* in, int row, float* to) {
  const ci_window& w = c.window;
  const int oy = row / w.out_width, ox = row - oy * w.out_width;
  const int x0 = ox * w.stride_x - w.pad_x, channels = c.in_channels;
  const bool one_run = w.dilation_x == 1 && c.in_pitch == channels && x0 >= 0 && x0 + w.kernel_x <= w.in_width;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const bool row_inside = unsigned(y) < unsigned(w.in_height);
    const float* line = in + int64_t(y) * w.in_width * c.in_pitch;
    if (row_inside && one_run) {
      const float* from = line + int64_t(x0) * channels;
      for (int i = 0; i < w.kernel_x * channels; ++i) to[i] = from[i];
      to += w.kernel_x * channels;
      continue;
    }
    for (int kx = 0; kx < w.kernel_x; ++kx, to += channels) {
      const int x = x0 + kx * w.dilation_x;
      if (row_inside && unsigned(x) < unsigned(w.in_width))
        std::memcpy(to, line + x * c.in_pitch, channels * sizeof(float));
      else
        std::memset(to, 0, channels * sizeof(float));
    }
  }
}

// The same, straight into the lines of a packed panel, where a tap is a whole number of lines.
template <class Format>
void gather_lines(const ci_conv& c, const float* in, int row, typename Format::Value* line, int64_t step) {
  const ci_window& w = c.window;
  const int oy = row / w.out_width, ox = row - oy * w.out_width;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    for (int kx = 0; kx < w.kernel_x; ++kx) {
      const int x = ox * w.stride_x - w.pad_x + kx * w.dilation_x;
      const bool inside = unsigned(y) < unsigned(w.in_height) && unsigned(x) < unsigned(w.in_width);
      const float* from = in + (int64_t(y) * w.in_width + x) * c.in_pitch;
      for (int k = 0; k < c.in_channels; k += kDepth, line += step) {
        if (inside) Format::put(line, from + k);
        else std::memset(line, 0, kDepth * sizeof(*line));
      }
    }
  }
}

// Gathers the neighbourhoods of `count` output pixels of one channel group: [depth / 16][count][16].
// line: floats for one neighbourhood, the padding behind it zero.
template <class Format>
void pack(const Job& job, int group, const int32_t* rows, int count, typename Format::Value* packed, float* line) {
  const ci_conv& c = *job.conv;
  const float* in = c.in + int64_t(group) * c.in_channels;
  const int64_t step = int64_t(count) * kDepth;
  for (int r = 0; r < count; ++r) {
    typename Format::Value* to = packed + int64_t(r) * kDepth;
    if (c.in_channels % kDepth == 0) {
      gather_lines<Format>(c, in, rows[r], to, step);
      continue;
    }
    gather(c, in, rows[r], line);
    for (int k = 0; k < job.depth; k += kDepth, to += step) Format::put(to, line + k);
  }
}

// Starts the sums of a register tile at the bias. What will be written lies far apart, which hides it from the
// hardware's prefetcher; the product gives time to fetch it.
template <int ROWS, int VECTORS>
inline __attribute__((always_inline)) void begin(const Job& job, int start, int64_t channel, int width,
                                                 Vector (&sums)[ROWS][VECTORS]) {
  const ci_conv& c = *job.conv;
  for (int v = 0; v < VECTORS; ++v) {
    float bias[kLanes] = {};
    const int lanes = std::min(kLanes, width - v * kLanes);
    if (lanes > 0) std::memcpy(bias, c.bias + channel + v * kLanes, lanes * sizeof(float));
    for (int r = 0; r < ROWS; ++r) sums[r][v] = load(bias);
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) {
      __builtin_prefetch(job.out + job.to[start + r] * job.pitch + channel + v * kLanes, 1);
      if (c.residual) __builtin_prefetch(c.residual + job.rows[start + r] * c.residual_pitch + channel + v * kLanes);
    }
}

// Adds the residual, activates and stores `width` (<= lanes) sums of one output pixel.
inline void finish_part(const Job& job, int index, int64_t channel, int width, Vector sum) {
  const ci_conv& c = *job.conv;
  if (!c.residual) {
    store_part(job.out + job.to[index] * job.pitch + channel, activate(c.activation, sum, channel, width), width);
    return;
  }
  const Vector residual = load_part(c.residual + job.rows[index] * c.residual_pitch + channel, width);
  sum = c.residual_last ? activate(c.activation, sum, channel, width) + residual
                        : activate(c.activation, sum + residual, channel, width);
  store_part(job.out + job.to[index] * job.pitch + channel, sum, width);
}

// Finishes all sums of a register tile. The common case is unrolled and free of calls, which would spill the sums.
template <int ROWS, int VECTORS>
inline void finish(const Job& job, int start, int64_t channel, int width, const Vector (&sums)[ROWS][VECTORS]) {
  const ci_conv& c = *job.conv;
  if (!c.residual && width == VECTORS * kLanes && c.activation.kind <= CI_CLAMP) {
    const bool clamps = c.activation.kind == CI_CLAMP;
    const Vector low = all(clamps ? c.activation.low : -__builtin_inff());
    const Vector high = all(clamps ? c.activation.high : __builtin_inff());
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v)
        store(job.out + job.to[start + r] * job.pitch + channel + v * kLanes, smallest(high, largest(low, sums[r][v])));
    return;
  }
  finish_each(sums, width, [&](int r, int v, int lanes, Vector sum) {
    finish_part(job, start + r, channel + v * kLanes, lanes, sum);
  });
}

// The products of every number of rows, 1 to kMaxRows, with one vector of columns or two.
template <class Multiply>
struct Table {
  Multiply narrow[kMaxRows + 1], wide[kMaxRows + 1];
};

// Fetches a share of what the next block of rows reads first: each row's last tap, which no other row has read.
inline void prefetch(const Job& job, int group, int block, int share, int shares) {
  if (block >= job.blocks) return;
  const ci_conv& c = *job.conv;
  const ci_window& w = c.window;
  const int start = block * job.block, size = std::min(job.block, job.count - start);
  for (int r = share * size / shares; r < (share + 1) * size / shares; ++r) {
    const int oy = job.rows[start + r] / w.out_width, ox = job.rows[start + r] - oy * w.out_width;
    const int y = std::min(oy * w.stride_y - w.pad_y + (w.kernel_y - 1) * w.dilation_y, w.in_height - 1);
    const int x = std::min(ox * w.stride_x - w.pad_x + (w.kernel_x - 1) * w.dilation_x, w.in_width - 1);
    const float* from = c.in + (int64_t(y) * w.in_width + x) * c.in_pitch + int64_t(group) * c.in_channels;
    for (int k = 0; k < c.in_channels; k += kDepth) __builtin_prefetch(from + k);
  }
}

inline Job make_job(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_conv& c = *static_cast<const ci_conv*>(params);
  Job job = job_on<Job>(threads, c, rows, out, pitch, kMaxRows);
  job.depth = (c.window.kernel_y * c.window.kernel_x * c.in_channels + kDepth - 1) / kDepth * kDepth;
  job.panels = (c.out_channels + kColumns - 1) / kColumns;
  return job;
}

// One task: a span of pixel blocks times a share of the weight panels, for every channel group.
template <class Format>
void run_packed_task(void* context, int task, int worker) {
  using Value = typename Format::Value;
  const Job& job = *static_cast<Job*>(context);
  const ci_conv& c = *job.conv;
  const auto [first, last, from, to] = TaskShare(job, task);
  const int64_t block_values = int64_t(job.block) * job.depth, panel_values = int64_t(job.depth) * kColumns;
  float* line = ci::scratch(job.threads, worker, block_values * job.chunk + job.depth);
  Value* packed = reinterpret_cast<Value*>(line + job.depth);
  std::memset(line, 0, job.depth * sizeof(float));
  for (int group = 0; group < c.groups; ++group)
    for (int chunk = first; chunk < last; chunk += job.chunk) {
      const int end = std::min(chunk + job.chunk, last);
      for (int b = chunk; b < end; ++b) {
        const int start = b * job.block, size = std::min(job.block, job.count - start);
        pack<Format>(job, group, job.rows + start, size, packed + (b - chunk) * block_values, line);
      }
      const Value* weight = reinterpret_cast<const Value*>(c.weight) + (int64_t(group) * job.panels + from) * panel_values;
      for (int panel = from; panel < to; ++panel, weight += panel_values) {
        const int width = std::min(kColumns, c.out_channels - panel * kColumns);
        const auto& table = width > kLanes ? Format::kTable.wide : Format::kTable.narrow;
        const int64_t channel = int64_t(group) * c.out_channels + panel * kColumns;
        for (int b = chunk; b < end; ++b) {
          const int start = b * job.block, size = std::min(job.block, job.count - start);
          if (job.chunk == 1) prefetch(job, group, b + 1, panel - from, to - from);
          table[size](job, start, packed + (b - chunk) * block_values, weight, channel, width);
        }
      }
    }
}

// A convolution that packs its inputs, which pays where there are many output channels.
template <class Format>
void run_packed(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  Job job = make_job(threads, params, rows, out, pitch);
  const int64_t block_bytes = int64_t(job.block) * job.depth * sizeof(typename Format::Value);
  const bool few = int64_t(job.depth) * job.conv->out_channels * int64_t(sizeof(typename Format::Value)) <= kFewWeights;
  const int spans = divide(job, few, kLargeBytes / block_bytes);
  ci::parallel_for(threads, spans * job.panel_groups, run_packed_task<Format>, &job);
}

}  // namespace
}  // namespace CI_ISA
