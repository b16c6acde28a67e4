// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Moves whole feature maps, as the picture in them has moved.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace {
// What moves in, until it is computed: so far from every value that no comparison holds its change back. Its square is
// still a number, as infinity times a weight of 0 is not.
// Levels have no such value: after a move the program holds nothing of them back.
constexpr float kUnseen = 1e18f;
constexpr uint16_t kUnseenBfloat16 = 0x5d5e;  // the same, rounded

template <class Value>
void shift(const ci_shift& map, Value unseen) {
  Value* pixels = static_cast<Value*>(map.pixels);
  const int64_t row = int64_t(map.width) * map.channels, total = row * map.height;
  const int64_t by = map.dy * row + int64_t(map.dx) * map.channels;
  // as one piece: what wraps around at the ends of rows lies where the picture moves in
  if (std::abs(by) < total) {
    std::memmove(pixels + std::max<int64_t>(by, 0), pixels + std::max<int64_t>(-by, 0),
                 sizeof(Value) * (total - std::abs(by)));
  }
  const int above = std::clamp(map.dy, 0, map.height), below = std::clamp(-map.dy, 0, map.height);
  std::fill_n(pixels, above * row, unseen);
  std::fill_n(pixels + (map.height - below) * row, below * row, unseen);
  const int64_t columns = std::min(std::abs(map.dx), map.width) * int64_t(map.channels);
  if (columns == 0) return;
  for (int y = above; y < map.height - below; ++y)
    std::fill_n(pixels + y * row + (map.dx > 0 ? 0 : row - columns), columns, unseen);
}
}  // namespace

extern "C" int ci_shift_maps(ci_threads* threads, const ci_shift* maps, int count) {
  return ci::attempted([&] {
    ci::parallel_for(
      threads, count,
      [](void* context, int task, int) {
        const ci_shift& map = static_cast<const ci_shift*>(context)[task];
        if (map.value_bytes == 1) shift<uint8_t>(map, 0);
        else if (map.value_bytes == 2) shift<uint16_t>(map, kUnseenBfloat16);
        else shift<float>(map, kUnseen);
      },
      const_cast<ci_shift*>(maps));
  });
}
