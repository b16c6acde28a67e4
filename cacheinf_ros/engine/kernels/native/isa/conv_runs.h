// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution of listed output pixels, of inputs and weights of less than 32 bits.
//
// Four bytes of an input's channels are multiplied with four bytes of weights per lane and instruction. A block of output
// pixels is read where it lies if it is regular: neighbours of one line, no window of which sticks out at the sides.
// Other blocks are copied behind one another first, with zeros outside the image; either way rows lie `step` bytes apart,
// and one product serves both: the sums of an output pixel do not depend on what is computed with it.
//
// Weights: [group][panel][run][quad][kPanel][4 bytes]. A run is what lies together in the input: a line of the window
// where `whole_lines` says so, otherwise one tap; zeros fill it up to whole quads.
//
// A Format says what values are, how they are multiplied, and what becomes of the sums: int8_conv.cpp, conv_bfloat16.cpp.
// conv_tiles.h multiplies the same blocks by matrix tiles, where the processor has them.
#pragma once

#include <utility>

#include "conv_tasks.h"

namespace CI_ISA {
namespace {

constexpr int kQuad = 4;                     // bytes that are multiplied per lane and instruction
constexpr int kPanel = 32;                   // output channels; the same for all instruction sets
constexpr int kColumns = 2 * kLanes;         // of a register tile
constexpr int64_t kLargeBytes = 512 * 1024;  // of packed rows that leave room for a panel of weights in a 1 MiB L2
constexpr int64_t kFewWeights = 256 * 1024;  // bytes that may be read from the L2 for every block of rows
constexpr int kAhead = 2048;                 // bytes of weights fetched ahead: they are many and used once per block

// Where the inputs of a block of output pixels lie.
struct Run {
  const uint8_t* from;  // of the first row
  int64_t step;         // bytes from row to row
};

struct Block {
  const Run* runs;
  int count, quads;  // runs, and of each the quads
  bool has_tail;     // whether half of a quad follows them
};

template <class Format>
struct Job {
  const typename Format::Conv* conv;
  const int32_t *rows, *to;
  float* out;
  int64_t pitch;
  int count;
  int runs, run_values, run_quads;  // of a window
  int row_bytes;                   // of all runs, each filled up to whole quads
  int64_t panel_bytes;
  int block, blocks;         // output pixels per register block, blocks in all
  int chunk;                 // blocks prepared together
  int span;                  // blocks of a task
  int panels, panel_groups;  // weight panels per group of channels; how many tasks share them
  bool has_tail;             // whether runs end within a quad, and what lies behind them must not be multiplied
  bool pointwise;            // whether the input pixels of consecutive rows follow one another, everywhere
  bool packs;                // whether all blocks are copied: something is read behind their runs
  int steps, step_quads;     // of tiles: of a run, and the quads of each
  ci_threads* threads;
};

template <class Value>
inline const uint8_t* bytes_of(const Value* values) {
  return reinterpret_cast<const uint8_t*>(values);
}

// The first bytes of a quad, followed by zeros, in all lanes.
template <int BYTES>
inline Bits broadcast(const uint8_t* quad) {
  int32_t value = 0;
  std::memcpy(&value, quad, BYTES);
  return value - Bits{};
}

// Whether sums are only scaled and bounded, at most with a residual first, and stored as narrow as the inputs are.
template <class Format>
inline bool is_common(const typename Format::Conv& c) {
  return only_bounds(c.activation) && !(c.residual && c.residual_last) && Format::is_narrow(c);
}

// Stores `lanes` sums of one output pixel: scaled, with any residual and activation.
template <class Format>
inline void finish_part(const Job<Format>& job, int index, int64_t channel, int lanes, typename Format::Sum sum) {
  const auto& c = *job.conv;
  Vector value = Format::value(sum, Format::factor(c, channel, lanes));
  const Vector residual = c.residual ? Format::residual(c, job.rows[index], channel, lanes) : Vector{};
  if (c.residual && !c.residual_last) value += residual;
  value = Format::activated(c, value, channel, lanes);
  if (c.residual && c.residual_last) value += residual;
  Format::store(c, job.out, job.to[index] * job.pitch + channel, value, lanes);
}

// Stores the sums of a register tile. The common cases are unrolled and free of calls, which would spill the sums.
template <class Format, int ROWS, int VECTORS>
inline void finish(const Job<Format>& job, int start, int64_t channel, int width,
                   const typename Format::Sum (&sums)[ROWS][VECTORS]) {
  const auto& c = *job.conv;
  if (is_common<Format>(c) && width == VECTORS * kLanes) {
    const auto bounds = Format::bounds(c);
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; ++v) {
      const int64_t k = channel + v * kLanes;
      const Vector factor = Format::factor(c, k, kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        Vector value = Format::value(sums[r][v], factor);
        if (c.residual) value += Format::residual(c, job.rows[start + r], k, kLanes);
        Format::store_narrow(c, job.out, job.to[start + r] * job.pitch + k, bounds.of(value));
      }
    }
    return;
  }
  typename Format::Sum kept[ROWS][VECTORS];  // sums are in registers only if they are never indexed by a variable
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; ++v) kept[r][v] = sums[r][v];
#pragma GCC unroll 1
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 1
    for (int v = 0; v < VECTORS; ++v) {
      const int lanes = std::min(kLanes, width - v * kLanes);
      if (lanes > 0) finish_part(job, start + r, channel + v * kLanes, lanes, kept[r][v]);
    }
}

// Multiplies ROWS rows with VECTORS * lanes output channels.
template <class Format, int ROWS, int VECTORS>
void multiply(const Job<Format>& job, int start, const Block& block, const uint8_t* weight, int64_t channel, int width) {
  using Sum = typename Format::Sum;
  const auto& c = *job.conv;
  Sum sums[ROWS][VECTORS];
#pragma GCC unroll 2
  for (int v = 0; v < VECTORS; ++v) {
    const int lanes = std::min(kLanes, width - v * kLanes);
    const Sum bias = lanes > 0 ? load_part(c.bias + channel + v * kLanes, lanes) : Sum{};
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) sums[r][v] = bias;
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {  // hidden from the hardware's prefetcher; the product gives time to fetch it
    __builtin_prefetch(Format::place(c, job.out, job.to[start + r] * job.pitch + channel), 1);
    if (c.residual) __builtin_prefetch(Format::residual_place(c, job.rows[start + r], channel));
  }
  Sum shifts[VECTORS] = {};  // what the product with zeros adds
  for (int i = 0; i < block.count; ++i) {
    // rows by threes: one register for the distance serves all of them
    constexpr int kThrees = (ROWS + 2) / 3;
    const int64_t step = block.runs[i].step;
    const uint8_t* threes[kThrees];
#pragma GCC unroll 16
    for (int t = 0; t < kThrees; ++t) threes[t] = block.runs[i].from + 3 * t * step;
    const auto add_quad = [&](Bits (*read)(const uint8_t*)) __attribute__((always_inline)) {
      Bits w[VECTORS];
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; ++v) {
        w[v] = *reinterpret_cast<const Bits*>(weight + v * kLanes * kQuad);
        __builtin_prefetch(weight + kAhead + v * kLanes * kQuad);
        if (Format::kShifts) shifts[v] = Format::add(shifts[v], Bits{}, w[v]);
      }
      weight += kPanel * kQuad;
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const Bits a = read(threes[r / 3] + r % 3 * step);
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = Format::add(sums[r][v], a, w[v]);
      }
#pragma GCC unroll 16
      for (int t = 0; t < kThrees; ++t) threes[t] += kQuad;
    };
    for (int q = 0; q < block.quads; ++q) add_quad(broadcast<kQuad>);
    if (!Format::kReadsBehind && block.has_tail) add_quad(broadcast<kQuad / 2>);
  }
  if (Format::kShifts)
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; ++v) sums[r][v] -= shifts[v];
  finish<Format, ROWS, VECTORS>(job, start, channel, width, sums);
}

template <class Format>
using Multiply = void (*)(const Job<Format>&, int, const Block&, const uint8_t*, int64_t, int);

// The products of every number of rows, 1 to Format::kRows, with one vector of columns or two.
template <class Format>
struct Table {
  Multiply<Format> narrow[Format::kRows + 1], wide[Format::kRows + 1];
};

template <class Format, int... R>
constexpr Table<Format> make_table(std::integer_sequence<int, R...>) {
  return {{nullptr, multiply<Format, R + 1, 1>...}, {nullptr, multiply<Format, R + 1, 2>...}};
}

template <class Format>
constexpr Table<Format> kProducts = make_table<Format>(std::make_integer_sequence<int, Format::kRows>{});

// Whether the block's windows are neighbours of one line, and none sticks out at the sides.
template <class Format>
inline bool is_regular(const Job<Format>& job, int start, int size) {
  const int first = job.rows[start], last = job.rows[start + size - 1];
  if (job.packs || last - first != size - 1) return false;
  if (job.pointwise) return true;
  const ci_window& w = job.conv->window;
  const int ox = first % w.out_width, x = ox * w.stride_x - w.pad_x;
  return ox + size <= w.out_width && x >= 0 &&
         x + (size - 1) * w.stride_x + (w.kernel_x - 1) * w.dilation_x < w.in_width;
}

// The runs of a regular block, where they lie; above and below the image is a line of zero points.
template <class Format>
void find_runs(const Job<Format>& job, const typename Format::Value* in, int start, const uint8_t* zeros, Run* runs) {
  const auto& c = *job.conv;
  const ci_window& w = c.window;
  const int row = job.rows[start], oy = row / w.out_width;
  const int x0 = (row - oy * w.out_width) * w.stride_x - w.pad_x, lines = c.whole_lines ? 1 : w.kernel_x;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const bool inside = unsigned(y) < unsigned(w.in_height);
    for (int kx = 0; kx < lines; ++kx)
      *runs++ = inside ? Run{bytes_of(in + (int64_t(y) * w.in_width + x0 + kx * w.dilation_x) * c.in_pitch),
                             int64_t(w.stride_x * c.in_pitch * sizeof(*in))}
                       : Run{zeros, 0};
  }
}

// Copies the neighbourhood of one output pixel behind one another, each run filled up to whole quads.
template <class Format>
void gather(const Job<Format>& job, const typename Format::Value* in, int row, typename Format::Value* to) {
  const auto& c = *job.conv;
  const ci_window& w = c.window;
  const int oy = row / w.out_width, ox = row - oy * w.out_width, channels = c.in_channels;
  const int x0 = ox * w.stride_x - w.pad_x, run = job.run_quads * Format::kTogether;
  const bool whole = c.whole_lines && x0 >= 0 && x0 + w.kernel_x <= w.in_width;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const bool inside = unsigned(y) < unsigned(w.in_height);
    const auto* line = in + int64_t(y) * w.in_width * c.in_pitch;
    if (whole) {
      if (inside) copy(to, line + x0 * c.in_pitch, job.run_values);
      else std::memset(to, Format::outside(c), job.run_values * sizeof(*to));
      to += run;
      continue;
    }
    auto* tap = to;
    for (int kx = 0; kx < w.kernel_x; ++kx) {
      const int x = x0 + kx * w.dilation_x;
      if (inside && unsigned(x) < unsigned(w.in_width)) copy(tap, line + x * c.in_pitch, channels);
      else std::memset(tap, Format::outside(c), channels * sizeof(*to));
      tap += c.whole_lines ? channels : run;
    }
    to += (c.whole_lines ? 1 : w.kernel_x) * run;
  }
}

// Memory of a worker: zero points, and for each block of a chunk its runs and, where it is not regular, its rows.
struct Space {
  uint8_t* zeros;
  Block* blocks;
  Run* runs;
  uint8_t* packed;

  template <class Job>
  static int64_t bytes(const Job& job) {
    return line_bytes(job) + job.chunk * int64_t(sizeof(Block) + job.runs * sizeof(Run) + block_bytes(job)) + 64;
  }
  template <class Job>
  static int64_t block_bytes(const Job& job) { return int64_t(job.block) * job.row_bytes; }
  template <class Job>
  static int64_t line_bytes(const Job& job) { return (job.run_quads * kQuad + 63) / 64 * 64; }

  // outside: the byte that zeros consist of.
  template <class Job>
  Space(const Job& job, int outside, void* memory) : zeros(static_cast<uint8_t*>(memory)) {
    std::memset(zeros, outside, line_bytes(job));
    blocks = reinterpret_cast<Block*>(zeros + line_bytes(job));
    runs = reinterpret_cast<Run*>(blocks + job.chunk);
    packed = reinterpret_cast<uint8_t*>(runs + int64_t(job.chunk) * job.runs);
    if (job.has_tail) std::memset(packed, 0, job.chunk * block_bytes(job));  // what fills runs up must be a number
  }
};

// Finds or packs the inputs of a block.
template <class Format>
inline void prepare(const Job<Format>& job, const typename Format::Value* in, int b, int place, const Space& space) {
  const int start = b * job.block, size = std::min(job.block, job.count - start);
  Run* runs = space.runs + int64_t(place) * job.runs;
  if (is_regular(job, start, size)) {
    find_runs(job, in, start, space.zeros, runs);
    space.blocks[place] = {runs, job.runs, job.run_quads - job.has_tail, job.has_tail};
    return;
  }
  uint8_t* packed = space.packed + place * Space::block_bytes(job);
  for (int r = 0; r < size; ++r)
    gather(job, in, job.rows[start + r], reinterpret_cast<typename Format::Value*>(packed + int64_t(r) * job.row_bytes));
  runs[0] = {packed, job.row_bytes};
  space.blocks[place] = {runs, 1, job.runs * job.run_quads, false};
}

// One task: a span of pixel blocks times a share of the weight panels, for every channel group.
template <class Format>
void run_task(void* context, int task, int worker) {
  const Job<Format>& job = *static_cast<Job<Format>*>(context);
  const auto& c = *job.conv;
  const auto* in = reinterpret_cast<const typename Format::Value*>(c.in);
  const auto [first, last, from, to] = TaskShare(job, task);
  const Space space(job, Format::outside(c), ci::scratch(job.threads, worker, (Space::bytes(job) + 3) / 4));
  for (int group = 0; group < c.groups; ++group)
    for (int chunk = first; chunk < last; chunk += job.chunk) {
      const int end = std::min(chunk + job.chunk, last);
      for (int b = chunk; b < end; ++b) prepare(job, in + int64_t(group) * c.in_channels, b, b - chunk, space);
      for (int panel = from; panel < to; ++panel)
        for (int column = 0; column < kPanel; column += kColumns) {
          const int width = std::min(kColumns, c.out_channels - panel * kPanel - column);
          if (width <= 0) break;
          const int64_t place = (int64_t(group) * job.panels + panel) * job.panel_bytes + column * kQuad;
          const uint8_t* weight = bytes_of(c.weight) + place;
          const auto& table = width > kLanes ? kProducts<Format>.wide : kProducts<Format>.narrow;
          const int64_t channel = int64_t(group) * c.out_channels + panel * kPanel + column;
          for (int b = chunk; b < end; ++b) {
            const int start = b * job.block, size = std::min(job.block, job.count - start);
            table[size](job, start, space.blocks[b - chunk], weight, channel, width);
          }
        }
    }
}

// A job on these rows in blocks of `most` or less; how it is divided, and panel_bytes, are left to its product.
template <class Format>
Job<Format> make_job(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch, int most) {
  const auto& c = *static_cast<const typename Format::Conv*>(params);
  const ci_window& w = c.window;
  Job<Format> job = job_on<Job<Format>>(threads, c, rows, out, pitch, most);
  job.runs = c.whole_lines ? w.kernel_y : w.kernel_y * w.kernel_x;
  job.run_values = c.whole_lines ? w.kernel_x * c.in_channels : c.in_channels;
  job.run_quads = (job.run_values + Format::kTogether - 1) / Format::kTogether;
  job.has_tail = !Format::kReadsBehind && job.run_values % Format::kTogether != 0;
  job.row_bytes = job.runs * job.run_quads * kQuad;
  job.panels = (c.out_channels + kPanel - 1) / kPanel;
  job.pointwise = w.kernel_y == 1 && w.kernel_x == 1 && w.stride_y == 1 && w.stride_x == 1 && w.pad_y == 0 &&
                  w.pad_x == 0 && w.out_width == w.in_width && w.out_height <= w.in_height;
  return job;
}

template <class Format>
void run(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  Job<Format> job = make_job<Format>(threads, params, rows, out, pitch, Format::kRows);
  job.panel_bytes = int64_t(job.row_bytes) * kPanel;
  const int spans = divide(job, job.panels * job.panel_bytes <= kFewWeights, kLargeBytes / Space::block_bytes(job));
  ci::parallel_for(threads, spans * job.panel_groups, run_task<Format>, &job);
}

}  // namespace
}  // namespace CI_ISA
