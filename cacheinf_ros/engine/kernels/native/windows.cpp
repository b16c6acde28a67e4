// Everything over windows that is not a matrix product: growth of active sets, pooling, depthwise convolution.
#include <algorithm>
#include <cstring>

#include "rows.h"

namespace {

constexpr int kChunk = 256;  // rows per task: a few microseconds of work

// First and last + 1 tap of a window of `kernel` taps that lie inside [0, size).
inline void inside(int start, int dilation, int kernel, int size, int& first, int& last) {
  first = start < 0 ? (-start + dilation - 1) / dilation : 0;
  last = start >= size ? 0 : std::min(kernel, (size - 1 - start) / dilation + 1);
}

struct Rows {
  const void* what;
  const int32_t* rows;
  int count;
};

void pool_task(void* context, int task, int) {
  const Rows& job = *static_cast<Rows*>(context);
  const ci_pool_window& p = *static_cast<const ci_pool_window*>(job.what);
  const ci_window& w = p.window;
  for (int i = task * kChunk; i < std::min(job.count, (task + 1) * kChunk); ++i) {
    const int oy = job.rows[i] / w.out_width, ox = job.rows[i] % w.out_width;
    const int y0 = oy * w.stride_y - w.pad_y, x0 = ox * w.stride_x - w.pad_x;
    int ky0, ky1, kx0, kx1;
    inside(y0, w.dilation_y, w.kernel_y, w.in_height, ky0, ky1);
    inside(x0, w.dilation_x, w.kernel_x, w.in_width, kx0, kx1);
    float* out = p.out + int64_t(job.rows[i]) * p.out_pitch;
    bool first = true;
    for (int ky = ky0; ky < ky1; ++ky)
      for (int kx = kx0; kx < kx1; ++kx) {
        const float* in = p.in + (int64_t(y0 + ky * w.dilation_y) * w.in_width + x0 + kx * w.dilation_x) * p.in_pitch;
        if (first) std::memcpy(out, in, sizeof(float) * p.channels);
        else if (p.average) for (int c = 0; c < p.channels; ++c) out[c] += in[c];
        else for (int c = 0; c < p.channels; ++c) out[c] = out[c] < in[c] ? in[c] : out[c];
        first = false;
      }
    if (p.average) {
      // torch: padding counts, but not what ceil_mode adds beyond the padded image.
      const int height = std::min(y0 + w.kernel_y, w.in_height + w.pad_y) - y0;
      const int width = std::min(x0 + w.kernel_x, w.in_width + w.pad_x) - x0;
      const int area = p.count_padding ? height * width : (ky1 - ky0) * (kx1 - kx0);
      for (int c = 0; c < p.channels; ++c) out[c] /= area;
    }
  }
}

void depthwise_task(void* context, int task, int) {
  const Rows& job = *static_cast<Rows*>(context);
  const ci_conv& c = *static_cast<const ci_conv*>(job.what);
  const ci_window& w = c.window;
  const int channels = c.groups;
  for (int i = task * kChunk; i < std::min(job.count, (task + 1) * kChunk); ++i) {
    const int64_t row = job.rows[i];
    const int oy = int(row) / w.out_width, ox = int(row) % w.out_width;
    const int y0 = oy * w.stride_y - w.pad_y, x0 = ox * w.stride_x - w.pad_x;
    int ky0, ky1, kx0, kx1;
    inside(y0, w.dilation_y, w.kernel_y, w.in_height, ky0, ky1);
    inside(x0, w.dilation_x, w.kernel_x, w.in_width, kx0, kx1);
    float* out = c.out + row * c.out_pitch;
    std::memcpy(out, c.bias, sizeof(float) * channels);
    for (int ky = ky0; ky < ky1; ++ky)
      for (int kx = kx0; kx < kx1; ++kx) {
        const float* in = c.in + (int64_t(y0 + ky * w.dilation_y) * w.in_width + x0 + kx * w.dilation_x) * c.in_pitch;
        const float* weight = c.weight + (ky * w.kernel_x + kx) * channels;
        for (int k = 0; k < channels; ++k) out[k] += in[k] * weight[k];
      }
    if (c.residual) {
      const float* residual = c.residual + row * c.residual_pitch;
      for (int k = 0; k < channels; ++k) out[k] += residual[k];
    }
    if (c.activation == CI_CLAMP)
      for (int k = 0; k < channels; ++k) out[k] = std::min(std::max(out[k], c.low), c.high);
  }
}

// Whether any set input lies under each output position of a window along a line; outside: what lies beside the line.
void spread(const uint8_t* in, int in_size, uint8_t* out, int out_size, int kernel, int stride, int dilation, int pad,
            uint8_t outside) {
  for (int o = 0; o < out_size; ++o) {
    int first, last;
    inside(o * stride - pad, dilation, kernel, in_size, first, last);
    uint8_t any = first > 0 || last < kernel ? outside : 0;
    for (int k = first; k < last; ++k) any |= in[o * stride - pad + k * dilation];
    out[o] = any;
  }
}

}  // namespace

extern "C" {

void ci_pool_rows(ci_threads* threads, const ci_pool_window* pool, const int32_t* rows, int count) {
  Rows job{pool, rows, count};
  ci::parallel_for(threads, (count + kChunk - 1) / kChunk, pool_task, &job);
}

// groups == channels, one filter each; weight: [taps][channels].
void ci_depthwise_rows(ci_threads* threads, const ci_conv* conv, const int32_t* rows, int count) {
  Rows job{conv, rows, count};
  ci::parallel_for(threads, (count + kChunk - 1) / kChunk, depthwise_task, &job);
}

// The outputs that depend on a set input: fills mask (uint8 [out]) and their indices; returns how many.
// between: uint8 [in_height][out_width] of scratch space. outside: 1 where what lies beside the image counts as set.
int ci_dilate(const ci_window* w, const uint8_t* in, uint8_t* between, uint8_t* mask, int32_t* rows, int outside) {
  for (int y = 0; y < w->in_height; ++y) {
    const uint8_t* line = in + int64_t(y) * w->in_width;
    uint8_t* to = between + int64_t(y) * w->out_width;
    if (!outside && std::memchr(line, 1, w->in_width) == nullptr) std::memset(to, 0, w->out_width);
    else spread(line, w->in_width, to, w->out_width, w->kernel_x, w->stride_x, w->dilation_x, w->pad_x, outside);
  }
  int count = 0;
  for (int y = 0; y < w->out_height; ++y) {
    uint8_t* line = mask + int64_t(y) * w->out_width;
    const int start = y * w->stride_y - w->pad_y;
    int first, last;
    inside(start, w->dilation_y, w->kernel_y, w->in_height, first, last);
    std::memset(line, outside && (first > 0 || last < w->kernel_y), w->out_width);
    for (int k = first; k < last; ++k) {
      const uint8_t* from = between + int64_t(start + k * w->dilation_y) * w->out_width;
      for (int x = 0; x < w->out_width; ++x) line[x] |= from[x];
    }
    for (int x = 0; x < w->out_width; ++x) {
      rows[count] = y * w->out_width + x;
      count += line[x];
    }
  }
  return count;
}
}
