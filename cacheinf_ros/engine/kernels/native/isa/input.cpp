// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Frames on their way into the input map: what differs is normalised and written, where the camera moved, through the
// motion (as in geometry/painting.py).
#include "sets.h"

namespace CI_ISA {
namespace {

constexpr int kTile = 8;  // pixels
constexpr int kBits = 5, kParts = 1 << kBits;  // of a pixel, by which places are rounded
constexpr int kChunk = 2048;                   // pixels of a task

struct Job {
  const ci_input* input;
  const uint8_t* image;
  const ci_set* touched;
  const ci_view* view;
  ci_set* changed;
  bool all;
};

// Writes a pixel as it is kept; whether any of its values changed.
template <class Value>
inline bool write_kept(const ci_input& input, int64_t pixel, const uint8_t* from) {
  Value* out = static_cast<Value*>(input.out) + pixel * input.pitch;
  Value values[3];
  for (int c = 0; c < 3; ++c) values[c] = static_cast<const Value*>(input.kept)[c * 256 + from[input.order[c]]];
  if (!std::memcmp(out, values, sizeof(values))) return false;
  std::memcpy(out, values, sizeof(values));
  return true;
}

// Takes over a pixel's new values; whether they count as a change.
inline bool write_pixel(const ci_input& input, int64_t pixel, const uint8_t* from, bool all) {
  uint8_t* seen = input.seen + pixel * 3;
  std::memcpy(input.composed + pixel * 3, from, 3);
  if (!all && seen[0] == from[0] && seen[1] == from[1] && seen[2] == from[2]) return false;
  float values[3], squares = 0;
  for (int c = 0; c < 3; ++c) {
    const float* table = input.table + c * 256;
    values[c] = table[from[input.order[c]]];
    const float change = values[c] - table[seen[input.order[c]]];
    squares += input.weight[c] * change * change;
  }
  if (!all && squares <= input.threshold) return false;
  std::memcpy(seen, from, 3);
  if (input.value_bytes == 1) return write_kept<uint8_t>(input, pixel, from) || all;
  if (input.value_bytes == 2) return write_kept<BFloat16>(input, pixel, from) || all;
  std::memcpy(static_cast<float*>(input.out) + pixel * input.pitch, values, sizeof(values));
  return true;
}

// Takes over the new values of neighbours, all of which count as changed.
template <class Value>
inline void write_run(const ci_input& input, const Value* table, int64_t first, int count, const uint8_t* from) {
  std::memcpy(input.composed + first * 3, from, count * 3);
  std::memcpy(input.seen + first * 3, from, count * 3);
  const int a = input.order[0], b = input.order[1], c = input.order[2];
  Value* out = static_cast<Value*>(input.out) + first * input.pitch;
  for (int i = 0; i < count; ++i, from += 3, out += input.pitch) {
    out[0] = table[from[a]];
    out[1] = table[256 + from[b]];
    out[2] = table[512 + from[c]];
  }
}

void write_task(void* context, int task, int) {
  const Job& job = *static_cast<Job*>(context);
  const ci_input& input = *job.input;
  const int32_t* rows = ci::rows_of(*job.touched);
  const int start = task * kChunk, count = std::min(job.touched->count - start, kChunk), first = rows[start];
  if (job.all && rows[start + count - 1] - first == count - 1) {  // a whole frame
    const uint8_t* from = job.image + int64_t(first) * 3;
    if (input.value_bytes == 1) write_run(input, static_cast<const uint8_t*>(input.kept), first, count, from);
    else if (input.value_bytes == 2) write_run(input, static_cast<const BFloat16*>(input.kept), first, count, from);
    else write_run(input, input.table, first, count, from);
    std::memset(job.changed->mask + first, 1, count);
    return;
  }
  for (int i = start; i < start + count; ++i)
    job.changed->mask[rows[i]] = write_pixel(*job.input, rows[i], job.image + int64_t(rows[i]) * 3, job.all);
}

inline bool any(const uint8_t* mask, int height, int width, int top, int left) {
  uint8_t found = 0;
  for (int y = top; y < std::min(top + kTile, height); ++y)
    for (int x = left; x < std::min(left + kTile, width); ++x) found |= mask[int64_t(y) * width + x];
  return found != 0;
}

// Flags the tiles of the picture in which a box of the frame is seen. A motion leads convex shapes to convex ones:
// corners say all.
void flag_seen(const ci_view& view, int rows, int columns, int top, int bottom, int left, int right) {
  const double* m = view.back;
  double low_x = 1e9, low_y = 1e9, high_x = -1e9, high_y = -1e9;
  for (const int y : {top, bottom})
    for (const int x : {left, right}) {
      const double depth = m[6] * x + m[7] * y + m[8];
      if (depth <= 0) {  // beyond the horizon: nobody knows
        std::memset(view.tiles, 1, int64_t(rows) * columns);
        return;
      }
      const double there_x = (m[0] * x + m[1] * y + m[2]) / depth, there_y = (m[3] * x + m[4] * y + m[5]) / depth;
      low_x = std::min(low_x, there_x), high_x = std::max(high_x, there_x);
      low_y = std::min(low_y, there_y), high_y = std::max(high_y, there_y);
    }
  if (high_x < 0 || high_y < 0 || low_x >= columns * kTile || low_y >= rows * kTile) return;
  const int first_row = int(std::max(0.0, low_y)) / kTile, first_column = int(std::max(0.0, low_x)) / kTile;
  const int last_row = std::min(rows - 1, int(std::min(high_y, 1e6)) / kTile);
  const int last_column = std::min(columns - 1, int(std::min(high_x, 1e6)) / kTile);
  for (int row = first_row; row <= last_row; ++row)
    std::memset(view.tiles + int64_t(row) * columns + first_column, 1, last_column - first_column + 1);
}

void flag_tiles(const ci_view& view, int height, int width, int rows, int columns) {
  std::memset(view.tiles, 0, int64_t(rows) * columns);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const int top = row * kTile, left = column * kTile;
      if (any(view.marked, height, width, top, left))
        flag_seen(view, rows, columns, top - 1, std::min(top + kTile, height), left - 1, std::min(left + kTile, width));
      if (view.unseen && any(view.unseen, height, width, top, left)) view.tiles[int64_t(row) * columns + column] = 1;
    }
}

// Where a line of a tile lies in the frame, in parts of a pixel, two pixels right and below of where it does: so all is
// positive, and shifting rounds down.
inline void find_places(const double* m, int y, int left, int height, int width, int32_t* there_x, int32_t* there_y) {
  for (int i = 0; i < kTile; ++i) {
    const double x = left + i, scale = kParts / std::max(m[6] * x + m[7] * y + m[8], 1e-9);
    const double at_x = (m[0] * x + m[1] * y + m[2]) * scale, at_y = (m[3] * x + m[4] * y + m[5]) * scale;
    there_x[i] = int32_t(std::min(std::max(at_x, -2.0 * kParts), (width + 1.0) * kParts) + (2 * kParts + 0.5));
    there_y[i] = int32_t(std::min(std::max(at_y, -2.0 * kParts), (height + 1.0) * kParts) + (2 * kParts + 0.5));
  }
}

// Paints a pixel that lies at a place of the frame, if it shows anything that counts.
inline bool paint_pixel(const Job& job, int64_t pixel, int place_x, int place_y) {
  const int height = job.input->height, width = job.input->width;
  const int part_x = place_x & (kParts - 1), part_y = place_y & (kParts - 1);
  int x0 = (place_x >> kBits) - 2, y0 = (place_y >> kBits) - 2, x1 = x0 + (part_x > 0), y1 = y0 + (part_y > 0);
  const bool shown = x1 >= 0 && y1 >= 0 && x0 < width && y0 < height;
  x0 = std::min(std::max(x0, 0), width - 1), x1 = std::min(std::max(x1, 0), width - 1);
  y0 = std::min(std::max(y0, 0), height - 1), y1 = std::min(std::max(y1, 0), height - 1);
  const int64_t p00 = int64_t(y0) * width + x0, p01 = int64_t(y0) * width + x1;
  const int64_t p10 = int64_t(y1) * width + x0, p11 = int64_t(y1) * width + x1;
  const uint8_t* marked = job.view->marked;
  const bool counts = shown && (marked[p00] | marked[p01] | marked[p10] | marked[p11]);
  uint8_t* unseen = job.view->unseen;
  if (!counts && !(unseen && unseen[pixel])) return false;
  if (shown && unseen) unseen[pixel] = 0;
  uint8_t value[3];
  for (int c = 0; c < 3; ++c) {
    const int upper = (kParts - part_x) * job.image[p00 * 3 + c] + part_x * job.image[p01 * 3 + c];
    const int lower = (kParts - part_x) * job.image[p10 * 3 + c] + part_x * job.image[p11 * 3 + c];
    value[c] = uint8_t(((kParts - part_y) * upper + part_y * lower + kParts * kParts / 2) >> (2 * kBits));
  }
  return write_pixel(*job.input, pixel, value, job.all);
}

void paint_task(void* context, int row, int) {
  const Job& job = *static_cast<Job*>(context);
  const int height = job.input->height, width = job.input->width, columns = (width + kTile - 1) / kTile;
  int32_t there_x[kTile], there_y[kTile];
  for (int column = 0; column < columns; ++column) {
    if (!job.view->tiles[int64_t(row) * columns + column]) continue;
    const int left = column * kTile, count = std::min(kTile, width - left);
    for (int y = row * kTile; y < std::min((row + 1) * kTile, height); ++y) {
      find_places(job.view->to_frame, y, left, height, width, there_x, there_y);
      const int64_t first = int64_t(y) * width + left;
      for (int i = 0; i < count; ++i) job.changed->mask[first + i] = paint_pixel(job, first + i, there_x[i], there_y[i]);
    }
  }
}

}  // namespace

// all: every touched pixel counts as changed.
void write_input(ci_threads* threads, const ci_input& input, const uint8_t* image, const ci_set& touched,
                 ci_set& changed, bool all) {
  const bool is_whole = all && ci::is_full(touched);
  if (!is_whole) std::memset(changed.mask, 0, int64_t(changed.height) * changed.width);
  Job job{&input, image, &touched, nullptr, &changed, all};
  ci::parallel_for(threads, (touched.count + kChunk - 1) / kChunk, write_task, &job);
  if (is_whole) changed.count = touched.count;
  else list(changed);
}

void paint_input(ci_threads* threads, const ci_input& input, const uint8_t* image, const ci_view& view,
                 ci_set& changed, bool all) {
  const int rows = (input.height + kTile - 1) / kTile, columns = (input.width + kTile - 1) / kTile;
  std::memset(changed.mask, 0, int64_t(changed.height) * changed.width);
  flag_tiles(view, input.height, input.width, rows, columns);
  Job job{&input, image, nullptr, &view, &changed, all};
  ci::parallel_for(threads, rows, paint_task, &job);
  list(changed);
}

}  // namespace CI_ISA
