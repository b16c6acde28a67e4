// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// All functions of one instruction set; the kernels in the order of ci_kernel.
#include "int8_kernels.h"
#include "sets.h"
#include "vectors.h"

#define CI_TEXT_(a) #a
#define CI_TEXT(a) CI_TEXT_(a)

namespace ci {

using ::CI_ISA::BFloat16;

const Isa* CI_ISA() {
  static const Isa isa{CI_TEXT(CACHEINF_ISA),
                       ::CI_ISA::kConvColumns,
                       ::CI_ISA::kHasBfloat16,
                       ::CI_INT8::has_byte_dot(),
                       {::CI_ISA::conv, ::CI_ISA::conv_in_place, ::CI_ISA::depthwise<float>, ::CI_ISA::pool<float>,
                        ::CI_ISA::elementwise<float>, ::CI_ISA::channel_norm<float>, ::CI_ISA::channel_softmax,
                        ::CI_ISA::resample<float>, ::CI_ISA::pixel_shuffle<float>, ::CI_ISA::select<float>,
                        ::CI_ISA::global_mean<float>, ::CI_ISA::conv_bfloat16, ::CI_ISA::conv_bfloat16_widened,
                        ::CI_ISA::depthwise<BFloat16>, ::CI_ISA::pool<BFloat16>, ::CI_ISA::elementwise<BFloat16>,
                        ::CI_ISA::channel_norm<BFloat16>, ::CI_ISA::resample<BFloat16>, ::CI_ISA::pixel_shuffle<BFloat16>,
                        ::CI_ISA::select<BFloat16>, ::CI_ISA::global_mean<BFloat16>, ::CI_ISA::widen, ::CI_ISA::narrow,
                        ::CI_INT8::conv, ::CI_INT8::conv_pairs,
                        ::CI_INT8::depthwise, ::CI_INT8::pool, ::CI_INT8::elementwise, ::CI_INT8::resample,
                        ::CI_INT8::pixel_shuffle, ::CI_INT8::select, ::CI_INT8::global_mean, ::CI_INT8::convert,
                        ::CI_ISA::conv_bfloat16_tiles, ::CI_INT8::conv_tiles},
                       ::CI_ISA::propagate_window,
                       ::CI_ISA::propagate_taps,
                       ::CI_ISA::unite,
                       ::CI_ISA::subtract,
                       ::CI_ISA::list,
                       ::CI_ISA::measure,
                       ::CI_ISA::commit,
                       ::CI_ISA::write_input,
                       ::CI_ISA::paint_input};
  return &isa;
}

}  // namespace ci
