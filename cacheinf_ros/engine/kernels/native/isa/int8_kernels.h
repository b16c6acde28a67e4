// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Kernels on levels, uint8_t that stand for (level - zero) * scale, and on int8_t weights.
//
// All instruction sets give the same levels: sums of products are integers, and what follows them is rounded step by
// step (see CI_ROUND_ALIKE in vectors.h).
#pragma once

#include "vectors.h"

namespace CI_INT8 {

CI_KERNEL(conv);
CI_KERNEL(conv_pairs);  // the same, without instructions for it
CI_KERNEL(conv_tiles);  // the same, by matrix tiles
CI_KERNEL(depthwise);
CI_KERNEL(pool);
CI_KERNEL(elementwise);
CI_KERNEL(resample);
CI_KERNEL(pixel_shuffle);
CI_KERNEL(select);
CI_KERNEL(global_mean);
CI_KERNEL(convert);
bool has_byte_dot();  // whether `conv` runs on this processor

}  // namespace CI_INT8
