// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution of listed output pixels on levels and int8_t weights, sums in int32_t.
//
// Four bytes of an input's channels are multiplied with four bytes of weights per lane and instruction. A block of output
// pixels is read where it lies if it is regular: neighbours of one line, no window of which sticks out at the sides.
// Other blocks are copied behind one another first, with the zero point outside the image; either way rows lie `step`
// bytes apart, and one product serves both. What the zero point adds to the sums is taken out by the bias.
//
// Weights: [group][panel][run][quad][kPanel][4]. A run is what lies together in the input: a line of the window where
// `whole_lines` says so, otherwise one tap; zeros fill it up to whole quads.
#include <utility>

#include "conv_tasks.h"
#include "int8_dot.h"
#include "int8_levels.h"

namespace CI_ISA {
namespace {

constexpr int kQuad = 4;                     // bytes
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
};

struct Job {
  const ci_conv_int8* conv;
  const int32_t *rows, *to;
  float* out;
  int64_t pitch;
  int count;
  int runs, run_bytes, run_quads;  // of a window
  int row_bytes;                   // of all runs, each filled up to whole quads
  int64_t panel_bytes;
  int block, blocks;         // output pixels per register block, blocks in all
  int chunk;                 // blocks prepared together
  int span;                  // blocks of a task
  int panels, panel_groups;  // weight panels per group of channels; how many tasks share them
  bool pointwise;            // whether the input pixels of consecutive rows follow one another, everywhere
  ci_threads* threads;
};

inline Bits broadcast(const uint8_t* quad) {
  int32_t value;
  std::memcpy(&value, quad, sizeof(value));
  return value - Bits{};
}

// Stores the sums of a register tile.
template <int ROWS, int VECTORS>
inline void finish(const Job& job, int start, int64_t channel, int width, const Bits (&sums)[ROWS][VECTORS]) {
  const ci_conv_int8& c = *job.conv;
  if (!c.residual && width == VECTORS * kLanes && c.activation.kind <= CI_CLAMP && c.out.scale != 0) {
    const bool clamps = c.activation.kind == CI_CLAMP;
    const Vector low = all(clamps ? c.activation.low : -__builtin_inff());
    const Vector high = all(clamps ? c.activation.high : __builtin_inff());
    for (int v = 0; v < VECTORS; ++v) {
      const Vector multiplier = load(c.multiplier + channel + v * kLanes);
      for (int r = 0; r < ROWS; ++r) {
        const Vector value = __builtin_convertvector(sums[r][v], Vector) * multiplier;
        store_levels(reinterpret_cast<uint8_t*>(job.out) + job.to[start + r] * job.pitch + channel + v * kLanes,
                     smallest(largest(value, low), high), c.out.zero, kLanes);
      }
    }
    return;
  }
  finish_each(sums, width, [&](int r, int v, int lanes, Bits sum) {
    const int64_t k = channel + v * kLanes;
    store_as(c.out, job.out, job.to[start + r] * job.pitch + k, finished(c, sum, job.rows[start + r], k, lanes), lanes);
  });
}

// Multiplies ROWS rows with VECTORS * lanes output channels.
template <class Dot, int ROWS, int VECTORS>
void multiply(const Job& job, int start, const Block& block, const int8_t* weight, int64_t channel, int width) {
  const ci_conv_int8& c = *job.conv;
  Bits sums[ROWS][VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    int32_t bias[kLanes] = {};
    const int lanes = std::min(kLanes, width - v * kLanes);
    if (lanes > 0) std::memcpy(bias, c.bias + channel + v * kLanes, lanes * sizeof(int32_t));
    Bits first;
    std::memcpy(&first, bias, sizeof(first));
    for (int r = 0; r < ROWS; ++r) sums[r][v] = first;
  }
  for (int r = 0; r < ROWS; ++r) {  // hidden from the hardware's prefetcher; the product gives time to fetch it
    const int64_t at = job.to[start + r] * job.pitch + channel;
    __builtin_prefetch(c.out.scale == 0 ? static_cast<const void*>(job.out + at) : reinterpret_cast<uint8_t*>(job.out) + at, 1);
    if (c.residual) __builtin_prefetch(c.residual + job.rows[start + r] * c.residual_pitch + channel);
  }
  Bits shifts[VECTORS] = {};  // what the product with zeros adds
  for (int i = 0; i < block.count; ++i) {
    // rows by threes: one register for the distance serves all of them
    constexpr int kThrees = (ROWS + 2) / 3;
    const int64_t step = block.runs[i].step;
    const uint8_t* threes[kThrees];
    for (int t = 0; t < kThrees; ++t) threes[t] = block.runs[i].from + 3 * t * step;
    for (int q = 0; q < block.quads; ++q) {
      Bits w[VECTORS];
      for (int v = 0; v < VECTORS; ++v) {
        w[v] = *reinterpret_cast<const Bits*>(weight + v * kLanes * kQuad);
        __builtin_prefetch(weight + kAhead + v * kLanes * kQuad);
        if (Dot::kShifts) shifts[v] = Dot::add(shifts[v], Bits{}, w[v]);
      }
      weight += kPanel * kQuad;
      for (int r = 0; r < ROWS; ++r) {
        const Bits a = broadcast(threes[r / 3] + r % 3 * step);
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = Dot::add(sums[r][v], a, w[v]);
      }
      for (int t = 0; t < kThrees; ++t) threes[t] += kQuad;
    }
  }
  if (Dot::kShifts)
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v) sums[r][v] -= shifts[v];
  finish<ROWS, VECTORS>(job, start, channel, width, sums);
}

using Multiply = void (*)(const Job&, int, const Block&, const int8_t*, int64_t, int);

// The products of every number of rows, 1 to Dot::kRows, with one vector of columns or two.
template <class Dot>
struct Table {
  Multiply narrow[Dot::kRows + 1], wide[Dot::kRows + 1];
};

template <class Dot, int... R>
constexpr Table<Dot> make_table(std::integer_sequence<int, R...>) {
  return {{nullptr, multiply<Dot, R + 1, 1>...}, {nullptr, multiply<Dot, R + 1, 2>...}};
}

template <class Dot>
constexpr Table<Dot> kProducts = make_table<Dot>(std::make_integer_sequence<int, Dot::kRows>{});

// Whether the block's windows are neighbours of one line, and none sticks out at the sides.
inline bool is_regular(const Job& job, int start, int size) {
  const int first = job.rows[start], last = job.rows[start + size - 1];
  if (last - first != size - 1) return false;
  if (job.pointwise) return true;
  const ci_window& w = job.conv->window;
  const int ox = first % w.out_width, x = ox * w.stride_x - w.pad_x;
  return ox + size <= w.out_width && x >= 0 &&
         x + (size - 1) * w.stride_x + (w.kernel_x - 1) * w.dilation_x < w.in_width;
}

// The runs of a regular block, where they lie; above and below the image is a line of zero points.
void find_runs(const Job& job, const uint8_t* in, int start, const uint8_t* zeros, Run* runs) {
  const ci_conv_int8& c = *job.conv;
  const ci_window& w = c.window;
  const int row = job.rows[start], oy = row / w.out_width;
  const int x0 = (row - oy * w.out_width) * w.stride_x - w.pad_x, lines = c.whole_lines ? 1 : w.kernel_x;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const bool inside = unsigned(y) < unsigned(w.in_height);
    for (int kx = 0; kx < lines; ++kx)
      *runs++ = inside ? Run{in + (int64_t(y) * w.in_width + x0 + kx * w.dilation_x) * c.in_pitch, w.stride_x * c.in_pitch}
                       : Run{zeros, 0};
  }
}

// Copies the neighbourhood of one output pixel behind one another, each run filled up to whole quads.
void gather(const Job& job, const uint8_t* in, int row, uint8_t* to) {
  const ci_conv_int8& c = *job.conv;
  const ci_window& w = c.window;
  const int oy = row / w.out_width, ox = row - oy * w.out_width, channels = c.in_channels;
  const int x0 = ox * w.stride_x - w.pad_x;
  const bool whole = c.whole_lines && x0 >= 0 && x0 + w.kernel_x <= w.in_width;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const bool inside = unsigned(y) < unsigned(w.in_height);
    const uint8_t* line = in + int64_t(y) * w.in_width * c.in_pitch;
    if (whole) {
      if (inside) copy(to, line + x0 * c.in_pitch, job.run_bytes);
      else std::memset(to, c.in_zero, job.run_bytes);
      to += job.run_quads * kQuad;
      continue;
    }
    uint8_t* tap = to;
    for (int kx = 0; kx < w.kernel_x; ++kx) {
      const int x = x0 + kx * w.dilation_x;
      if (inside && unsigned(x) < unsigned(w.in_width)) copy(tap, line + x * c.in_pitch, channels);
      else std::memset(tap, c.in_zero, channels);
      tap += c.whole_lines ? channels : job.run_quads * kQuad;
    }
    to += (c.whole_lines ? 1 : w.kernel_x) * job.run_quads * kQuad;
  }
}

// Memory of a worker: zero points, and for each block of a chunk its runs and, where it is not regular, its rows.
struct Space {
  uint8_t* zeros;
  Block* blocks;
  Run* runs;
  uint8_t* packed;

  static int64_t bytes(const Job& job) {
    return line_bytes(job) + job.chunk * int64_t(sizeof(Block) + job.runs * sizeof(Run) + block_bytes(job)) + 64;
  }
  static int64_t block_bytes(const Job& job) { return int64_t(job.block) * job.row_bytes; }
  static int64_t line_bytes(const Job& job) { return (job.run_quads * kQuad + 63) / 64 * 64; }

  Space(const Job& job, void* memory) : zeros(static_cast<uint8_t*>(memory)) {
    std::memset(zeros, job.conv->in_zero, line_bytes(job));
    blocks = reinterpret_cast<Block*>(zeros + line_bytes(job));
    runs = reinterpret_cast<Run*>(blocks + job.chunk);
    packed = reinterpret_cast<uint8_t*>(runs + int64_t(job.chunk) * job.runs);
  }
};

// Finds or packs the inputs of a block.
inline void prepare(const Job& job, const uint8_t* in, int b, int place, const Space& space) {
  const int start = b * job.block, size = std::min(job.block, job.count - start);
  Run* runs = space.runs + int64_t(place) * job.runs;
  if (is_regular(job, start, size)) {
    find_runs(job, in, start, space.zeros, runs);
    space.blocks[place] = {runs, job.runs, job.run_quads};
    return;
  }
  uint8_t* packed = space.packed + place * Space::block_bytes(job);
  for (int r = 0; r < size; ++r) gather(job, in, job.rows[start + r], packed + int64_t(r) * job.row_bytes);
  runs[0] = {packed, job.row_bytes};
  space.blocks[place] = {runs, 1, job.runs * job.run_quads};
}

// One task: a span of pixel blocks times a share of the weight panels, for every channel group.
template <class Dot>
void run_task(void* context, int task, int worker) {
  const Job& job = *static_cast<Job*>(context);
  const ci_conv_int8& c = *job.conv;
  const auto [first, last, from, to] = TaskShare(job, task);
  const Space space(job, ci::scratch(job.threads, worker, (Space::bytes(job) + 3) / 4));
  for (int group = 0; group < c.groups; ++group)
    for (int chunk = first; chunk < last; chunk += job.chunk) {
      const int end = std::min(chunk + job.chunk, last);
      for (int b = chunk; b < end; ++b) prepare(job, c.in + int64_t(group) * c.in_channels, b, b - chunk, space);
      for (int panel = from; panel < to; ++panel)
        for (int column = 0; column < kPanel; column += kColumns) {
          const int width = std::min(kColumns, c.out_channels - panel * kPanel - column);
          if (width <= 0) break;
          const int8_t* weight = c.weight + (int64_t(group) * job.panels + panel) * job.panel_bytes + column * kQuad;
          const auto& table = width > kLanes ? kProducts<Dot>.wide : kProducts<Dot>.narrow;
          const int64_t channel = int64_t(group) * c.out_channels + panel * kPanel + column;
          for (int b = chunk; b < end; ++b) {
            const int start = b * job.block, size = std::min(job.block, job.count - start);
            table[size](job, start, space.blocks[b - chunk], weight, channel, width);
          }
        }
    }
}

template <class Dot>
void run(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  const ci_conv_int8& c = *static_cast<const ci_conv_int8*>(params);
  const ci_window& w = c.window;
  Job job = job_on<Job>(threads, c, rows, out, pitch, Dot::kRows);
  job.runs = c.whole_lines ? w.kernel_y : w.kernel_y * w.kernel_x;
  job.run_bytes = c.whole_lines ? w.kernel_x * c.in_channels : c.in_channels;
  job.run_quads = (job.run_bytes + kQuad - 1) / kQuad;
  job.row_bytes = job.runs * job.run_quads * kQuad;
  job.panel_bytes = int64_t(job.row_bytes) * kPanel;
  job.panels = (c.out_channels + kPanel - 1) / kPanel;
  job.pointwise = w.kernel_y == 1 && w.kernel_x == 1 && w.stride_y == 1 && w.stride_x == 1 && w.pad_y == 0 &&
                  w.pad_x == 0 && w.out_width == w.in_width;
  const int spans = divide(job, job.panels * job.panel_bytes <= kFewWeights, kLargeBytes / Space::block_bytes(job));
  ci::parallel_for(threads, spans * job.panel_groups, run_task<Dot>, &job);
}

}  // namespace

void conv_pairs(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<Pairs>(threads, params, rows, out, pitch);
}

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)
void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<ByteDot>(threads, params, rows, out, pitch);
}
#else
void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  run<Pairs>(threads, params, rows, out, pitch);
}
#endif

bool has_byte_dot() { return processor_has_byte_dot(); }

}  // namespace CI_ISA
