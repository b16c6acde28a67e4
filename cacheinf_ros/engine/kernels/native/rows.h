// Row-sparse kernels: feature maps are rows of channels, one row per pixel (NHWC), and only listed rows are computed.
#pragma once

#include <cstdint>

extern "C" {

// Geometry of a sliding window over an image; y before x.
struct ci_window {
  int32_t in_height, in_width, out_height, out_width;
  int32_t kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x;
};

enum ci_activation : int32_t { CI_LINEAR = 0, CI_CLAMP = 1 };

// A convolution with everything that does not change between frames. Pitches are in floats.
struct ci_conv {
  ci_window window;
  int32_t groups, in_channels, out_channels;  // channels per group
  int32_t activation;
  float low, high;  // of CI_CLAMP
  int64_t in_pitch, out_pitch, residual_pitch;
  const float* in;
  const float* weight;    // as ci_pack_weight lays it out
  const float* bias;      // [groups * out_channels]
  const float* residual;  // added before the activation; may be null
  float* out;
};

struct ci_pool_window {
  ci_window window;
  int32_t channels;
  int32_t average;        // 0: maximum
  int32_t count_padding;  // average: divide by the window's area even where it overlaps the padding
  int32_t reserved;
  int64_t in_pitch, out_pitch;
  const float* in;
  float* out;
};

struct ci_threads;  // a pool of threads, owned by one engine
}

namespace ci {

// A function that runs one task of a parallel loop; worker: 0 .. threads - 1.
using Task = void (*)(void* context, int task, int worker);
void parallel_for(ci_threads* threads, int tasks, Task run, void* context);
int thread_count(const ci_threads* threads);
float* scratch(ci_threads* threads, int worker, int64_t floats);  // 64-byte aligned, kept between calls

// The instruction sets that igemm.cpp is compiled for.
struct Gemm {
  int rows, columns;  // of the register tile
  void (*conv)(ci_threads*, const ci_conv*, const int32_t* rows, int count);
};
const Gemm* gemm_base();
#if defined(__x86_64__)
const Gemm* gemm_avx2();
const Gemm* gemm_avx512();
#endif
const Gemm* best_gemm();

}  // namespace ci
