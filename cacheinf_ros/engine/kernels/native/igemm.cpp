// Convolution of listed output pixels as an indirect matrix product (as in XNNPACK's IGEMM and GotoBLAS).
//
// The neighbourhoods of a block of output pixels are gathered into a packed panel that stays in the L2 cache and is
// multiplied with every panel of the weights; sums stay in registers over the whole depth. So nothing of the
// size of an im2col matrix is ever written, and a sparse set of pixels runs at the speed of a dense one.
//
// Compiled once per instruction set (CACHEINF_ISA); best_gemm() picks at run time.
#include <algorithm>
#include <cstring>

#include "rows.h"

#ifndef CACHEINF_ISA
#define CACHEINF_ISA base
#endif
#define CI_JOIN(a, b) a##b
#define CI_NAME(a, b) CI_JOIN(a, b)

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16, kMaxRows = 14;  // 28 of 32 registers hold sums
#elif defined(__AVX2__)
constexpr int kLanes = 8, kMaxRows = 6;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kMaxRows = 12;
#else
constexpr int kLanes = 4, kMaxRows = 6;
#endif
constexpr int kColumns = 2 * kLanes;
constexpr int kDepth = 16;                     // floats of a row that lie together in a packed panel: a cache line
constexpr int64_t kPanelBytes = 384 * 1024;    // of packed rows: leaves room for a weight panel in a 1 MiB L2

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef float LooseVector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

inline Vector load(const float* p) { return *reinterpret_cast<const LooseVector*>(p); }
inline void store(float* p, Vector v) { *reinterpret_cast<LooseVector*>(p) = v; }
inline Vector all(float v) { return v - Vector{}; }

struct Job {
  const ci_conv* conv;
  const int32_t* rows;
  int count, depth;         // depth: taps * channels, rounded up to kDepth
  int block, blocks;        // output pixels per register block, blocks in all
  int chunk;                // blocks packed together
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

inline Vector activate(const ci_conv& c, Vector v) {
  if (c.activation == CI_CLAMP) {
    v = v < all(c.low) ? all(c.low) : v;
    v = v > all(c.high) ? all(c.high) : v;
  }
  return v;
}

// Adds bias and residual, activates and stores `width` (<= lanes) sums of one output pixel.
inline void finish(const ci_conv& c, int64_t row, int64_t channel, int width, Vector sum) {
  float* out = c.out + row * c.out_pitch + channel;
  const float* residual = c.residual ? c.residual + row * c.residual_pitch + channel : nullptr;
  if (width == kLanes) {
    if (residual) sum += load(residual);
    store(out, activate(c, sum));
    return;
  }
  float lanes[kLanes] = {};
  if (residual) std::memcpy(lanes, residual, width * sizeof(float));
  sum = activate(c, sum + load(lanes));
  store(lanes, sum);
  std::memcpy(out, lanes, width * sizeof(float));
}

// Multiplies ROWS packed rows with a panel of VECTORS * lanes output channels.
template <int ROWS, int VECTORS>
void multiply(const Job& job, const int32_t* rows, const float* packed, const float* weight, int64_t channel,
              int width) {
  const ci_conv& c = *job.conv;
  Vector sums[ROWS][VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    float bias[kLanes] = {};
    const int lanes = std::min(kLanes, width - v * kLanes);
    if (lanes > 0) std::memcpy(bias, c.bias + channel + v * kLanes, lanes * sizeof(float));
    for (int r = 0; r < ROWS; ++r) sums[r][v] = load(bias);
  }
  // Rows lie far apart, which hides them from the hardware's prefetcher; the product gives time to fetch them.
  for (int r = 0; r < ROWS; ++r) {
    __builtin_prefetch(c.out + rows[r] * c.out_pitch + channel, 1);
    if (VECTORS > 1) __builtin_prefetch(c.out + rows[r] * c.out_pitch + channel + kLanes, 1);
    if (c.residual) {
      __builtin_prefetch(c.residual + rows[r] * c.residual_pitch + channel);
      if (VECTORS > 1) __builtin_prefetch(c.residual + rows[r] * c.residual_pitch + channel + kLanes);
    }
  }
  for (int depth = 0; depth < job.depth; depth += kDepth) {
    for (int k = 0; k < kDepth; ++k) {
      Vector w[VECTORS];
      for (int v = 0; v < VECTORS; ++v) w[v] = *reinterpret_cast<const Vector*>(weight + v * kLanes);
      weight += kColumns;
      for (int r = 0; r < ROWS; ++r) {
        const Vector a = all(packed[r * kDepth + k]);
        for (int v = 0; v < VECTORS; ++v) sums[r][v] += a * w[v];
      }
    }
    packed += ROWS * kDepth;
  }
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECTORS; ++v) {
      const int lanes = std::min(kLanes, width - v * kLanes);
      if (lanes > 0) finish(c, rows[r], channel + v * kLanes, lanes, sums[r][v]);
    }
}

using Multiply = void (*)(const Job&, const int32_t*, const float*, const float*, int64_t, int);

template <int... R>
struct Table {
  Multiply narrow[sizeof...(R) + 1] = {nullptr, multiply<R, 1>...};
  Multiply wide[sizeof...(R) + 1] = {nullptr, multiply<R, 2>...};
};
#if defined(__AVX512F__)
const Table<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14> kTable;
#elif defined(__aarch64__)
const Table<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12> kTable;
#else
const Table<1, 2, 3, 4, 5, 6> kTable;
#endif

// One task: a chunk of pixel blocks times a share of the weight panels, for every channel group.
void run_task(void* context, int task, int worker) {
  const Job& job = *static_cast<Job*>(context);
  const ci_conv& c = *job.conv;
  const int first = task / job.panel_groups * job.chunk, share = task % job.panel_groups;
  const int last = std::min(first + job.chunk, job.blocks);
  const int from = share * job.panels / job.panel_groups, to = (share + 1) * job.panels / job.panel_groups;
  const int64_t block_floats = int64_t(job.block) * job.depth;
  float* packed = ci::scratch(job.threads, worker, block_floats * job.chunk + job.depth);
  float* line = packed + block_floats * job.chunk;
  std::memset(line, 0, job.depth * sizeof(float));
  const int64_t panel_floats = int64_t(job.depth) * kColumns;
  for (int group = 0; group < c.groups; ++group) {
    for (int b = first; b < last; ++b) {
      const int start = b * job.block, size = std::min(job.block, job.count - start);
      pack(job, group, job.rows + start, size, packed + (b - first) * block_floats, line);
    }
    const float* weight = c.weight + (int64_t(group) * job.panels + from) * panel_floats;
    for (int panel = from; panel < to; ++panel, weight += panel_floats) {
      const int width = std::min(kColumns, c.out_channels - panel * kColumns);
      const auto& table = width > kLanes ? kTable.wide : kTable.narrow;
      const int64_t channel = int64_t(group) * c.out_channels + panel * kColumns;
      for (int b = first; b < last; ++b) {
        const int start = b * job.block, size = std::min(job.block, job.count - start);
        table[size](job, job.rows + start, packed + (b - first) * block_floats, weight, channel, width);
      }
    }
  }
}

void conv(ci_threads* threads, const ci_conv* c, const int32_t* rows, int count) {
  if (count <= 0) return;
  Job job{};
  job.conv = c;
  job.rows = rows;
  job.count = count;
  job.threads = threads;
  const int taps = c->window.kernel_y * c->window.kernel_x;
  job.depth = (taps * c->in_channels + kDepth - 1) / kDepth * kDepth;
  job.panels = (c->out_channels + kColumns - 1) / kColumns;
  job.blocks = (count + kMaxRows - 1) / kMaxRows;
  job.block = (count + job.blocks - 1) / job.blocks;  // blocks of equal size: a thin last block would be slow
  job.blocks = (count + job.block - 1) / job.block;
  const int wanted = ci::thread_count(threads) > 1 ? 4 * ci::thread_count(threads) : 1;
  const int fits = std::max<int64_t>(1, kPanelBytes / (int64_t(job.block) * job.depth * sizeof(float)));
  job.chunk = std::min(fits, std::max(1, job.blocks / wanted));
  const int chunks = (job.blocks + job.chunk - 1) / job.chunk;
  job.panel_groups = std::min(job.panels, std::max(1, wanted / (2 * chunks)));
  ci::parallel_for(threads, chunks * job.panel_groups, run_task, &job);
}

}  // namespace

namespace ci {
const Gemm* CI_NAME(gemm_, CACHEINF_ISA)() {
  static const Gemm gemm{kMaxRows, kColumns, conv};
  return &gemm;
}
}  // namespace ci
