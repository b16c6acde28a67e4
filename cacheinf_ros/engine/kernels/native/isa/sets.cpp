// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// How active sets propagate through operators, separably: along the lines, then across them.
#include "sets.h"

namespace CI_ISA {
namespace {

// First and last + 1 tap of a window of `kernel` taps that lie inside [0, size).
inline void inside(int start, int dilation, int kernel, int size, int& first, int& last) {
  first = start < 0 ? (-start + dilation - 1) / dilation : 0;
  last = start >= size ? 0 : std::min(kernel, (size - 1 - start) / dilation + 1);
}

inline void merge(uint8_t* to, const uint8_t* from, int count) {
  for (int x = 0; x < count; ++x) to[x] |= from[x];
}

// to[x] = any tap of the window at output x of a line. full: room for a line of the input.
void spread_line(const ci_window& w, const uint8_t* line, uint8_t* to, uint8_t* full) {
  // At stride 1 first, which vectorises: full[x] for the window that starts at x - pad.
  const int reach = (w.out_width - 1) * w.stride_x + 1;  // starts that matter
  uint8_t* starts = w.stride_x == 1 ? to : full;
  std::memset(starts, 0, reach);
  for (int k = 0; k < w.kernel_x; ++k) {
    const int offset = k * w.dilation_x - w.pad_x;  // start s reads line[s + offset]
    const int first = std::max(0, -offset), last = std::min(reach, w.in_width - offset);
    if (last > first) merge(starts + first, line + first + offset, last - first);
  }
  if (w.stride_x > 1)
    for (int x = 0; x < w.out_width; ++x) to[x] = full[x * w.stride_x];
}

// Sets the outputs whose window sticks out over the image on one of these sides.
void mark_border(const ci_window& w, ci_set& to, int sides) {
  for (int y = 0; y < w.out_height; ++y) {
    int first, last;
    inside(y * w.stride_y - w.pad_y, w.dilation_y, w.kernel_y, w.in_height, first, last);
    uint8_t* line = to.mask + int64_t(y) * w.out_width;
    if ((first > 0 && sides & CI_TOP) || (last < w.kernel_y && sides & CI_BOTTOM)) {
      std::memset(line, 1, w.out_width);
      continue;
    }
    for (int x = 0; x < w.out_width; ++x) {
      inside(x * w.stride_x - w.pad_x, w.dilation_x, w.kernel_x, w.in_width, first, last);
      if ((first > 0 && sides & CI_LEFT) || (last < w.kernel_x && sides & CI_RIGHT)) line[x] = 1;
    }
  }
}

// The same of a line of outputs that read beside the image by a table.
void mark_columns(const ci_tap_table& r, int width, int sides, uint8_t* line) {
  for (int x = 0; x < width; ++x)
    for (int k = 0; k < r.taps_x; ++k) {
      const int in = r.index_x[x * r.taps_x + k];
      if (in < 0 && sides & (in == -1 ? CI_LEFT : CI_RIGHT)) line[x] = 1;
    }
}

// How often each input is repeated where outputs read one input each, in order; 0: they do not.
int repeats(const int32_t* index, int taps, int size) {
  if (taps != 1) return 0;
  int times = 0;
  while (times < size && index[times] == 0) ++times;
  for (int i = 0, in = 0; in * times < size && times; ++in)
    for (const int end = std::min(size, (in + 1) * times); i < end; ++i)
      if (index[i] != in) return 0;
  return times;
}

void repeat_line(const uint8_t* line, int times, int width, uint8_t* to) {
  if (times == 1) return void(std::memcpy(to, line, width));
  const int whole = width / times;
  if (times == 2)  // vectorises
    for (int x = 0; x < whole; ++x) to[2 * x] = to[2 * x + 1] = line[x];
  else
    for (int x = 0; x < whole; ++x) std::memset(to + x * times, line[x], times);
  if (whole * times < width) std::memset(to + whole * times, line[whole], width - whole * times);
}

}  // namespace

void propagate_window(const ci_window& w, const ci_set& from, ci_set& to, int outside, uint8_t* scratch) {
  if (ci::is_full(from)) return ci::fill(to);
  if (from.count == 0 && !outside) return ci::clear(to);
  std::memset(to.mask, 0, int64_t(to.height) * to.width);
  if (from.count > 0) {
    const int32_t* rows = ci::rows_of(from);
    const int top = rows[0] / w.in_width, bottom = rows[from.count - 1] / w.in_width;
    uint8_t* full = scratch;  // one line of window starts, which may exceed the input by its padding
    const int64_t inside = w.in_width + 2 * std::max(0, w.pad_x) + w.kernel_x * w.dilation_x + w.stride_x;
    const int64_t starts = int64_t(w.out_width - 1) * w.stride_x + 1;  // more, where there is padding behind the image
    uint8_t* between = scratch + std::max(inside, starts);
    for (int y = top; y <= bottom; ++y) {
      const uint8_t* line = from.mask + int64_t(y) * w.in_width;
      uint8_t* to_line = between + int64_t(y - top) * w.out_width;
      if (std::memchr(line, 1, w.in_width) == nullptr) std::memset(to_line, 0, w.out_width);
      else spread_line(w, line, to_line, full);
    }
    const int reach = (w.kernel_y - 1) * w.dilation_y;
    const int above = std::max(0, top + w.pad_y - reach + w.stride_y - 1);  // of window starts, moved by the padding
    for (int y = above / w.stride_y; y < w.out_height && y * w.stride_y - w.pad_y <= bottom; ++y) {
      uint8_t* line = to.mask + int64_t(y) * w.out_width;
      for (int k = 0; k < w.kernel_y; ++k) {
        const int in = y * w.stride_y - w.pad_y + k * w.dilation_y;
        if (in >= top && in <= bottom) merge(line, between + int64_t(in - top) * w.out_width, w.out_width);
      }
    }
  }
  if (outside) mark_border(w, to, outside);
  list(to);
}

void propagate_taps(const ci_tap_table& r, const ci_set& from, ci_set& to, int outside, uint8_t* between) {
  if (ci::is_full(from)) return ci::fill(to);
  if (from.count == 0 && !outside) return ci::clear(to);
  const int times = repeats(r.index_x, r.taps_x, to.width);
  const bool same_columns = from.width == to.width && times == 1;
  if (same_columns) between = from.mask;
  for (int y = 0; y < from.height && !same_columns; ++y) {
    const uint8_t* line = from.mask + int64_t(y) * from.width;
    uint8_t* to_line = between + int64_t(y) * to.width;
    if (times) {
      repeat_line(line, times, to.width, to_line);
      continue;
    }
    for (int x = 0; x < to.width; ++x) {
      uint8_t any = 0;
      for (int k = 0; k < r.taps_x; ++k) {
        const int in = r.index_x[x * r.taps_x + k];
        any |= in >= 0 ? line[in] : uint8_t((outside & (in == -1 ? CI_LEFT : CI_RIGHT)) != 0);
      }
      to_line[x] = any;
    }
  }
  for (int y = 0; y < to.height; ++y) {
    uint8_t* line = to.mask + int64_t(y) * to.width;
    std::memset(line, 0, to.width);
    for (int k = 0; k < r.taps_y; ++k) {
      const int in = r.index_y[y * r.taps_y + k];
      if (in >= 0) merge(line, between + int64_t(in) * to.width, to.width);
      else if (outside & (in == -1 ? CI_TOP : CI_BOTTOM)) std::memset(line, 1, to.width);
      else if (outside) mark_columns(r, to.width, outside, line);
    }
  }
  list(to);
}

void unite(const ci_set& first, const ci_set& second, ci_set& to) {
  if (ci::is_full(first) || ci::is_full(second)) return ci::fill(to);
  uint8_t* mask = to.mask;  // a byte that is written could lie in the structures, for all a compiler knows
  const uint8_t *one = first.mask, *other = second.mask;
  const int64_t pixels = int64_t(to.height) * to.width;
  for (int64_t i = 0; i < pixels; ++i) mask[i] = one[i] | other[i];
  list(to);
}

void subtract(const ci_set& first, const ci_set& second, ci_set& to) {
  if (first.count == 0 || ci::is_full(second)) return ci::clear(to);
  uint8_t* mask = to.mask;
  const uint8_t *one = first.mask, *other = second.mask;
  const int64_t pixels = int64_t(to.height) * to.width;
  for (int64_t i = 0; i < pixels; ++i) mask[i] = one[i] & ~other[i];
  list(to);
}

void list(ci_set& set) {
  const int pixels = set.height * set.width;
  int count = 0, i = 0;
#if defined(__AVX512BW__)
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (; i + 64 <= pixels; i += 64) {
    const __m512i bytes = _mm512_loadu_si512(set.mask + i);
    uint64_t bits = _mm512_test_epi8_mask(bytes, bytes);
    for (int first = i; bits; first += 16, bits >>= 16) {
      const __mmask16 active = __mmask16(bits);
      const __m512i rows = _mm512_add_epi32(lanes, _mm512_set1_epi32(first));
      _mm512_storeu_si512(set.listed + count, _mm512_maskz_compress_epi32(active, rows));
      count += __builtin_popcount(active);
    }
  }
#endif
  for (; i + 8 <= pixels; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, set.mask + i, 8);
    if (eight == 0) continue;
    if (eight == 0x0101010101010101u) {
      for (int k = 0; k < 8; ++k) set.listed[count + k] = i + k;
      count += 8;
      continue;
    }
    for (int k = 0; k < 8; ++k) {  // without branches: writes are repeated until one counts
      set.listed[count] = i + k;
      count += set.mask[i + k];
    }
  }
  for (; i < pixels; ++i) {
    set.listed[count] = i;
    count += set.mask[i];
  }
  set.count = count;
}

}  // namespace CI_ISA
