// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Convolution in float32 that reads inputs where they lie: where there are few output channels, packing would cost as
// much as it saves.
#include "igemm.h"

namespace CI_ISA {
namespace {

// Where the inputs of a block of output pixels lie: `count` stretches of `length` floats for each of its rows.
struct Runs {
  const float** from;  // [count][kMaxRows]; of a regular block only the first row's
  int64_t* steps;      // [count], of a regular block: from one row to the next
  const float* zeros;  // what taps outside the image read
  int count, length;
  bool regular;        // neighbouring pixels of one line, and no window sticks out at its ends
};

// The same product, with inputs read where they lie. DEEP: of so many inputs that one running sum would lose digits.
template <int ROWS, int VECTORS, bool REGULAR, bool DEEP>
void multiply_in_place(const Job& job, int start, const Runs& runs, const float* weight, int64_t channel, int width) {
  const ci_conv& c = *job.conv;
  constexpr int kStep = VECTORS == 1 ? 4 : 2;  // depth per pass over the rows: weights that fit into registers
  Vector sums[ROWS][VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    const int lanes = std::min(kLanes, width - v * kLanes);
    const Vector bias = lanes > 0 ? load_part(c.bias + channel + v * kLanes, lanes) : all(0);
    for (int r = 0; r < ROWS; ++r) sums[r][v] = bias;
  }
  Vector totals[ROWS][VECTORS] = {};  // of the running sums that have ended, if any has
  int summed = 0;
  bool has_totals = false;
  for (int run = 0; run < runs.count; ++run) {
    const float* const* from = runs.from + run * kMaxRows;
    const int64_t step = REGULAR ? runs.steps[run] : 0;
    const auto row = [&](int r) { return REGULAR ? from[0] + r * step : from[r]; };
    // running sums end at the same depths however inputs lie in runs, lest a pixel's bits depend on its neighbours
    for (int first = 0, end; first < runs.length; first = end) {
      if (DEEP && summed == kSumDepth) {
        for (int r = 0; r < ROWS; ++r)
          for (int v = 0; v < VECTORS; ++v) {
            totals[r][v] = has_totals ? totals[r][v] + sums[r][v] : sums[r][v];
            sums[r][v] = all(0);
          }
        has_totals = true;
        summed = 0;
      }
      end = DEEP ? std::min(first + kSumDepth - summed, runs.length) : runs.length;
      summed += end - first;
      int k = first;
      for (; k + kStep <= end; k += kStep, weight += kStep * kColumns) {
        Vector w[kStep][VECTORS];
        for (int i = 0; i < kStep; ++i)
          for (int v = 0; v < VECTORS; ++v) w[i][v] = *reinterpret_cast<const Vector*>(weight + i * kColumns + v * kLanes);
        for (int r = 0; r < ROWS; ++r) {
          const float* values = row(r) + k;
          for (int i = 0; i < kStep; ++i) {
            const Vector a = all(values[i]);
            for (int v = 0; v < VECTORS; ++v) sums[r][v] += a * w[i][v];
          }
        }
      }
      for (; k < end; ++k, weight += kColumns)
        for (int r = 0; r < ROWS; ++r)
          for (int v = 0; v < VECTORS; ++v)
            sums[r][v] += all(row(r)[k]) * *reinterpret_cast<const Vector*>(weight + v * kLanes);
    }
  }
  if (DEEP && has_totals)
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECTORS; ++v) sums[r][v] += totals[r][v];
  finish<ROWS, VECTORS>(job, start, channel, width, sums);
}

using MultiplyInPlace = void (*)(const Job&, int, const Runs&, const float*, int64_t, int);

struct InPlaceTable {
  MultiplyInPlace products[2][2][2][kMaxRows + 1];  // [deep][wide][regular][rows]
};

template <int VECTORS, bool DEEP, int... R>
constexpr void fill(MultiplyInPlace (&products)[2][kMaxRows + 1], std::integer_sequence<int, R...>) {
  ((products[0][R + 1] = multiply_in_place<R + 1, VECTORS, false, DEEP>), ...);
  ((products[1][R + 1] = multiply_in_place<R + 1, VECTORS, true, DEEP>), ...);
}

constexpr InPlaceTable make_table() {
  constexpr auto kRows = std::make_integer_sequence<int, kMaxRows>{};
  InPlaceTable table{};
  fill<1, false>(table.products[0][0], kRows);
  fill<2, false>(table.products[0][1], kRows);
  fill<1, true>(table.products[1][0], kRows);
  fill<2, true>(table.products[1][1], kRows);
  return table;
}
constexpr InPlaceTable kTable = make_table();

// Finds the inputs of a block: one run per line of the window if no window sticks out at the sides and pixels lie behind
// one another, otherwise one per tap.
void find_runs(const Job& job, const float* in, int start, int size, Runs& runs) {
  const ci_conv& c = *job.conv;
  const ci_window& w = c.window;
  const int first = job.rows[start], last = job.rows[start + size - 1];
  const int oy = first / w.out_width, ox = first - oy * w.out_width;
  const int reach = (w.kernel_x - 1) * w.dilation_x;
  const int x0 = ox * w.stride_x - w.pad_x, y0 = oy * w.stride_y - w.pad_y;
  runs.regular = last - first == size - 1 && last / w.out_width == oy && x0 >= 0 &&
                 x0 + (size - 1) * w.stride_x + reach < w.in_width;
  bool whole = w.dilation_x == 1 && c.in_pitch == c.in_channels;  // the taps of a line follow one another
  if (!runs.regular)
    for (int r = 0; r < size && whole; ++r) {
      const int x = job.rows[start + r] % w.out_width * w.stride_x - w.pad_x;
      whole = x >= 0 && x + reach < w.in_width;
    }
  const int steps = whole ? 1 : w.kernel_x;
  runs.length = c.in_channels * (w.kernel_x / steps);
  runs.count = 0;
  for (int ky = 0; ky < w.kernel_y; ++ky)
    for (int kx = 0; kx < steps; ++kx, ++runs.count) {
      const float** from = runs.from + runs.count * kMaxRows;
      for (int r = 0; r < (runs.regular ? 1 : size); ++r) {
        const int row = job.rows[start + r], row_y = runs.regular ? oy : row / w.out_width;
        const int x = (row - row_y * w.out_width) * w.stride_x - w.pad_x + kx * w.dilation_x;
        const int y = row_y * w.stride_y - w.pad_y + ky * w.dilation_y;
        const bool inside = unsigned(y) < unsigned(w.in_height) && unsigned(x) < unsigned(w.in_width);
        from[r] = inside ? in + (int64_t(y) * w.in_width + x) * c.in_pitch : runs.zeros;
      }
      const int y = y0 + ky * w.dilation_y;
      runs.steps[runs.count] = unsigned(y) < unsigned(w.in_height) ? w.stride_x * c.in_pitch : 0;
    }
}

// One task: a span of pixel blocks, without packing.
void run_task_in_place(void* context, int task, int worker) {
  const Job& job = *static_cast<Job*>(context);
  const ci_conv& c = *job.conv;
  const int64_t taps = c.window.kernel_y * c.window.kernel_x;
  char* space = reinterpret_cast<char*>(ci::scratch(job.threads, worker, taps * (kMaxRows + 1) * 2 + job.depth));
  Runs runs{};
  runs.from = reinterpret_cast<const float**>(space);
  runs.steps = reinterpret_cast<int64_t*>(space + taps * kMaxRows * sizeof(float*));
  float* zeros = reinterpret_cast<float*>(runs.steps + taps);
  std::memset(zeros, 0, job.depth * sizeof(float));
  runs.zeros = zeros;
  const int last = std::min((task + 1) * job.span, job.blocks);
  for (int group = 0; group < c.groups; ++group)
    for (int b = task * job.span; b < last; ++b) {
      const int start = b * job.block, size = std::min(job.block, job.count - start);
      find_runs(job, c.in + int64_t(group) * c.in_channels, start, size, runs);
      prefetch(job, group, b + 1, 0, 1);
      const float* weight = c.weight + int64_t(group) * job.panels * job.depth * kColumns;
      for (int panel = 0; panel < job.panels; ++panel, weight += int64_t(job.depth) * kColumns) {
        const int width = std::min(kColumns, c.out_channels - panel * kColumns);
        const MultiplyInPlace multiply = kTable.products[job.depth > kSumDepth][width > kLanes][runs.regular][size];
        multiply(job, start, runs, weight, int64_t(group) * c.out_channels + panel * kColumns, width);
      }
    }
}

}  // namespace

void conv_in_place(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  if (has_one_pixel(*static_cast<const ci_conv*>(params))) return conv(threads, params, rows, out, pitch);
  Job job = make_job(threads, params, rows, out, pitch);
  job.span = std::max(1, job.blocks / wanted_tasks(threads));
  ci::parallel_for(threads, (job.blocks + job.span - 1) / job.span, run_task_in_place, &job);
}

}  // namespace CI_ISA
