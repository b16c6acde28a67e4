// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// The input pixels that make up an output pixel of a resized or padded map.
#pragma once

#include "vectors.h"

namespace CI_ISA {

template <class Value>
struct Tap {
  const Value* in;
  float weight;
};

// The taps of an output pixel that lie inside the image and count.
template <class Value>
int list_taps(const ci_resample& p, const Value* image, int64_t oy, int64_t ox, Tap<Value>* taps) {
  const int32_t *index_y = p.index_y + oy * p.taps_y, *index_x = p.index_x + ox * p.taps_x;
  const float *weight_y = p.weight_y + oy * p.taps_y, *weight_x = p.weight_x + ox * p.taps_x;
  int count = 0;
  for (int i = 0; i < p.taps_y; ++i) {
    if (index_y[i] < 0) continue;
    const Value* line = image + int64_t(index_y[i]) * p.in_width * p.in_pitch;
    for (int j = 0; j < p.taps_x; ++j)
      if (index_x[j] >= 0) taps[count++] = {line + index_x[j] * p.in_pitch, weight_y[i] * weight_x[j]};
  }
  return count;
}

}  // namespace CI_ISA
