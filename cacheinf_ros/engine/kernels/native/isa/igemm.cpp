// Convolution of listed output pixels as an indirect matrix product (as in XNNPACK's IGEMM and GotoBLAS).
//
// The neighbourhoods of a block of output pixels are gathered into a packed panel that stays in the cache and is
// multiplied with every panel of the weights; sums stay in registers over the whole depth. So nothing of the
// size of an im2col matrix is ever written, and a sparse set of pixels runs at the speed of a dense one.
// Where there are few output channels, packing would cost as much as it saves: conv_in_place reads inputs where they lie.
#include "vectors.h"

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
constexpr int kDepth = 16;                   // floats of a row that lie together in a packed panel: a cache line
constexpr int kSumDepth = 512;               // of one running sum: longer ones lose digits
constexpr int64_t kLargeBytes = 640 * 1024;  // of packed rows that leave room for a panel of weights in a 1 MiB L2
constexpr int kAhead = 2048;                 // floats of weights fetched ahead: they are many and used once per block
constexpr int64_t kFewWeights = 512 * 1024;  // bytes that may be read from the L2 for every block of rows

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

// Copies the neighbourhood of one output pixel behind one another; outside the image lie zeros.
void gather(const ci_conv& c, const float* in, int row, float* to) {
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
void gather_lines(const ci_conv& c, const float* in, int row, float* line, int64_t step) {
  const ci_window& w = c.window;
  const int oy = row / w.out_width, ox = row - oy * w.out_width;
  for (int ky = 0; ky < w.kernel_y; ++ky) {
    const int y = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    for (int kx = 0; kx < w.kernel_x; ++kx) {
      const int x = ox * w.stride_x - w.pad_x + kx * w.dilation_x;
      const bool inside = unsigned(y) < unsigned(w.in_height) && unsigned(x) < unsigned(w.in_width);
      const float* from = in + (int64_t(y) * w.in_width + x) * c.in_pitch;
      for (int k = 0; k < c.in_channels; k += kDepth, line += step) {
        if (inside) std::memcpy(line, from + k, kDepth * sizeof(float));
        else std::memset(line, 0, kDepth * sizeof(float));
      }
    }
  }
}

// Gathers the neighbourhoods of `count` output pixels of one channel group: [depth / 16][count][16].
// line: floats for one neighbourhood, the padding behind it zero.
void pack(const Job& job, int group, const int32_t* rows, int count, float* packed, float* line) {
  const ci_conv& c = *job.conv;
  const float* in = c.in + int64_t(group) * c.in_channels;
  const int64_t step = int64_t(count) * kDepth;
  for (int r = 0; r < count; ++r) {
    float* to = packed + int64_t(r) * kDepth;
    if (c.in_channels % kDepth == 0) {
      gather_lines(c, in, rows[r], to, step);
      continue;
    }
    gather(c, in, rows[r], line);
    for (int k = 0; k < job.depth; k += kDepth, to += step) std::memcpy(to, line + k, kDepth * sizeof(float));
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
        store(job.out + job.to[start + r] * job.pitch + channel + v * kLanes, smallest(largest(sums[r][v], low), high));
    return;
  }
  Vector kept[ROWS][VECTORS];
  std::memcpy(kept, sums, sizeof(kept));
#pragma GCC unroll 1
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 1
    for (int v = 0; v < VECTORS; ++v) {
      const int lanes = std::min(kLanes, width - v * kLanes);
      if (lanes > 0) finish_part(job, start + r, channel + v * kLanes, lanes, kept[r][v]);
    }
}

// Multiplies ROWS packed rows with a panel of VECTORS * lanes output channels.
template <int ROWS, int VECTORS>
void multiply(const Job& job, int start, const float* packed, const float* weight, int64_t channel, int width) {
  const ci_conv& c = *job.conv;
  Vector sums[ROWS][VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    float bias[kLanes] = {};
    const int lanes = std::min(kLanes, width - v * kLanes);
    if (lanes > 0) std::memcpy(bias, c.bias + channel + v * kLanes, lanes * sizeof(float));
    for (int r = 0; r < ROWS; ++r) sums[r][v] = load(bias);
  }
  // Rows lie far apart, which hides them from the hardware's prefetcher; the product gives time to fetch them.
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) {
      __builtin_prefetch(job.out + job.to[start + r] * job.pitch + channel + v * kLanes, 1);
      if (c.residual) __builtin_prefetch(c.residual + job.rows[start + r] * c.residual_pitch + channel + v * kLanes);
    }
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

// Where the inputs of a block of output pixels lie: `count` stretches of `length` floats for each of its rows.
struct Runs {
  const float** from;  // [count][kMaxRows]; of a regular block only the first row's
  int64_t* steps;      // [count], of a regular block: from one row to the next
  const float* zeros;  // what taps outside the image read
  int count, length;
  bool regular;        // neighbouring pixels of one line, and no window sticks out at its ends
};

// The same product, with inputs read where they lie.
template <int ROWS, int VECTORS, bool REGULAR>
void multiply_in_place(const Job& job, int start, const Runs& runs, const float* weight, int64_t channel, int width) {
  const ci_conv& c = *job.conv;
  constexpr int kStep = VECTORS == 1 ? 4 : 2;  // depth per pass over the rows: weights that fit into registers
  Vector sums[ROWS][VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    const int lanes = std::min(kLanes, width - v * kLanes);
    const Vector bias = lanes > 0 ? load_part(c.bias + channel + v * kLanes, lanes) : all(0);
    for (int r = 0; r < ROWS; ++r) sums[r][v] = bias;
  }
  for (int run = 0; run < runs.count; ++run) {
    const float* const* from = runs.from + run * kMaxRows;
    const int64_t step = REGULAR ? runs.steps[run] : 0;
    const auto row = [&](int r) { return REGULAR ? from[0] + r * step : from[r]; };
    int k = 0;
    for (; k + kStep <= runs.length; k += kStep, weight += kStep * kColumns) {
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
    for (; k < runs.length; ++k, weight += kColumns)
      for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v)
          sums[r][v] += all(row(r)[k]) * *reinterpret_cast<const Vector*>(weight + v * kLanes);
  }
  finish<ROWS, VECTORS>(job, start, channel, width, sums);
}

using Multiply = void (*)(const Job&, int, const float*, const float*, int64_t, int);
using MultiplyInPlace = void (*)(const Job&, int, const Runs&, const float*, int64_t, int);

template <int... R>
struct Table {
  Multiply narrow[sizeof...(R) + 1] = {nullptr, multiply<R, 1>...};
  Multiply wide[sizeof...(R) + 1] = {nullptr, multiply<R, 2>...};
  MultiplyInPlace in_place[2][2][sizeof...(R) + 1] = {  // [wide][regular]
      {{nullptr, multiply_in_place<R, 1, false>...}, {nullptr, multiply_in_place<R, 1, true>...}},
      {{nullptr, multiply_in_place<R, 2, false>...}, {nullptr, multiply_in_place<R, 2, true>...}}};
};
#if defined(__AVX512F__)
const Table<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14> kTable;
#elif defined(__aarch64__)
const Table<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12> kTable;
#else
const Table<1, 2, 3, 4, 5, 6> kTable;
#endif

// Fetches a share of what the next block of rows reads first: each row's last tap, which no other row has read.
void prefetch(const Job& job, int group, int block, int share, int shares) {
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

// Finds the inputs of a block: one run per line of the window if all windows lie inside the image and its pixels
// behind one another, otherwise one per tap.
void find_runs(const Job& job, const float* in, int start, int size, Runs& runs) {
  const ci_conv& c = *job.conv;
  const ci_window& w = c.window;
  const int first = job.rows[start], last = job.rows[start + size - 1];
  const int oy = first / w.out_width, ox = first - oy * w.out_width;
  const int reach = (w.kernel_x - 1) * w.dilation_x;
  const int x0 = ox * w.stride_x - w.pad_x, y0 = oy * w.stride_y - w.pad_y;
  runs.regular = last - first == size - 1 && last / w.out_width == oy && x0 >= 0 &&
                 x0 + (size - 1) * w.stride_x + reach < w.in_width;
  const int steps = runs.regular && w.dilation_x == 1 && c.in_pitch == c.in_channels ? 1 : w.kernel_x;
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
        const MultiplyInPlace multiply = kTable.in_place[width > kLanes][runs.regular][size];
        multiply(job, start, runs, weight, int64_t(group) * c.out_channels + panel * kColumns, width);
      }
    }
}

// One task: a span of pixel blocks times a share of the weight panels, for every channel group.
void run_task(void* context, int task, int worker) {
  const Job& job = *static_cast<Job*>(context);
  const ci_conv& c = *job.conv;
  const int first = task / job.panel_groups * job.span, share = task % job.panel_groups;
  const int last = std::min(first + job.span, job.blocks);
  const int from = share * job.panels / job.panel_groups, to = (share + 1) * job.panels / job.panel_groups;
  const int64_t block_floats = int64_t(job.block) * job.depth, panel_floats = int64_t(job.depth) * kColumns;
  float* packed = ci::scratch(job.threads, worker, block_floats * job.chunk + job.depth);
  float* line = packed + block_floats * job.chunk;
  std::memset(line, 0, job.depth * sizeof(float));
  for (int group = 0; group < c.groups; ++group)
    for (int chunk = first; chunk < last; chunk += job.chunk) {
      const int end = std::min(chunk + job.chunk, last);
      for (int b = chunk; b < end; ++b) {
        const int start = b * job.block, size = std::min(job.block, job.count - start);
        pack(job, group, job.rows + start, size, packed + (b - chunk) * block_floats, line);
      }
      const float* weight = c.weight + (int64_t(group) * job.panels + from) * panel_floats;
      for (int panel = from; panel < to; ++panel, weight += panel_floats) {
        const int width = std::min(kColumns, c.out_channels - panel * kColumns);
        const auto& table = width > kLanes ? kTable.wide : kTable.narrow;
        const int64_t channel = int64_t(group) * c.out_channels + panel * kColumns;
        for (int b = chunk; b < end; ++b) {
          const int start = b * job.block, size = std::min(job.block, job.count - start);
          if (job.chunk == 1) prefetch(job, group, b + 1, panel - from, to - from);
          table[size](job, start, packed + (b - chunk) * block_floats, weight, channel, width);
        }
      }
    }
}

}  // namespace

const int kConvColumns = kColumns;

namespace {

Job make_job(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  const ci_conv* c = static_cast<const ci_conv*>(params);
  Job job{};
  job.conv = c;
  job.rows = rows.rows;
  job.to = rows.to;
  job.out = out;
  job.pitch = pitch;
  job.count = rows.count;
  job.threads = threads;
  job.depth = (c->window.kernel_y * c->window.kernel_x * c->in_channels + kDepth - 1) / kDepth * kDepth;
  job.panels = (c->out_channels + kColumns - 1) / kColumns;
  job.blocks = (rows.count + kMaxRows - 1) / kMaxRows;
  job.block = (rows.count + job.blocks - 1) / job.blocks;  // blocks of equal size: a thin last block would be slow
  job.blocks = (rows.count + job.block - 1) / job.block;
  return job;
}

int wanted_tasks(ci_threads* threads) { return ci::thread_count(threads) > 1 ? 4 * ci::thread_count(threads) : 1; }

}  // namespace

// Packs its inputs, which pays where there are many output channels.
void conv(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  Job job = make_job(threads, params, rows, out, pitch);
  // Few weights are read again for every block, whose rows then stay in the L1; many are read once for many blocks.
  const int64_t block_bytes = int64_t(job.block) * job.depth * sizeof(float);
  const bool few = int64_t(job.depth) * job.conv->out_channels * int64_t(sizeof(float)) <= kFewWeights;
  // Tasks share the rows where there are enough of them, otherwise the weights, which come from far away.
  const int fits = few ? 1 : std::max<int64_t>(1, kLargeBytes / block_bytes), wanted = wanted_tasks(threads);
  const int chunks = (job.blocks + fits - 1) / fits;
  job.chunk = (job.blocks + chunks - 1) / chunks;
  job.span = std::max(1, chunks / wanted) * job.chunk;
  const int spans = (job.blocks + job.span - 1) / job.span;
  job.panel_groups = std::min(job.panels, few ? std::max(1, wanted / (2 * spans)) : (wanted + spans - 1) / spans);
  ci::parallel_for(threads, spans * job.panel_groups, run_task, &job);
}

// Reads its inputs where they lie, which pays where there are few output channels.
void conv_in_place(ci_threads* threads, const void* params, const ci_rows& rows, float* out, int64_t pitch) {
  if (rows.count <= 0) return;
  Job job = make_job(threads, params, rows, out, pitch);
  job.span = std::max(1, job.blocks / wanted_tasks(threads));
  ci::parallel_for(threads, (job.blocks + job.span - 1) / job.span, run_task_in_place, &job);
}

}  // namespace CI_ISA
