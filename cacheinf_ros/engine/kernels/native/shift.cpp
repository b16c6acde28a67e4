// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Moves whole feature maps, as the picture in them has moved.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace {
// What moves in, until it is computed: so far from every value that no comparison holds its change back. Its square is
// still a number, as infinity times a weight of 0 is not.
constexpr float kUnseen = 1e18f;

void shift(const ci_shift& map) {
  const int64_t row = int64_t(map.width) * map.channels, total = row * map.height;
  const int64_t by = map.dy * row + int64_t(map.dx) * map.channels;
  // as one piece: what wraps around at the ends of rows lies where the picture moves in
  if (std::abs(by) < total) {
    std::memmove(map.pixels + std::max<int64_t>(by, 0), map.pixels + std::max<int64_t>(-by, 0),
                 sizeof(float) * (total - std::abs(by)));
  }
  const int above = std::clamp(map.dy, 0, map.height), below = std::clamp(-map.dy, 0, map.height);
  std::fill_n(map.pixels, above * row, kUnseen);
  std::fill_n(map.pixels + (map.height - below) * row, below * row, kUnseen);
  const int64_t columns = std::min(std::abs(map.dx), map.width) * int64_t(map.channels);
  if (columns == 0) return;
  for (int y = above; y < map.height - below; ++y)
    std::fill_n(map.pixels + y * row + (map.dx > 0 ? 0 : row - columns), columns, kUnseen);
}
}  // namespace

extern "C" int ci_shift_maps(ci_threads* threads, const ci_shift* maps, int count) {
  return ci::attempted([&] {
    ci::parallel_for(
      threads, count, [](void* context, int task, int) { shift(static_cast<const ci_shift*>(context)[task]); },
      const_cast<ci_shift*>(maps));
  });
}
