// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Runs the steps of a compiled graph: active sets propagate, kernels compute their pixels, small changes are held back.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels.h"

namespace ci {

void clear(ci_set& set) {
  std::memset(set.mask, 0, int64_t(set.height) * set.width);
  set.count = 0;
}

void fill(ci_set& set) {
  const int pixels = set.height * set.width;
  if (set.count != pixels) std::memset(set.mask, 1, pixels);
  set.count = pixels;
}

}  // namespace ci

// Scratch space of a program; everything else belongs to the caller.
struct ci_program {
  ci_threads* threads;
  std::vector<uint8_t> mask;      // for propagation, and which rows changed
  std::vector<float> computed;    // rows before they are committed
  std::vector<float> squares;     // of changes, by pixel, before they are pooled
  std::vector<int32_t> in_order;  // 0, 1, 2, ...
};

namespace {

constexpr int64_t kBatchFloats = 1 << 17;  // computed rows that wait for their commit: half of an L2 cache

void copy_set(const ci_set& from, ci_set& to) {
  if (ci::is_full(from)) return ci::fill(to);
  std::memcpy(to.mask, from.mask, int64_t(to.height) * to.width);
  std::memcpy(to.listed, from.listed, sizeof(int32_t) * from.count);
  to.count = from.count;
}

void run_kernel(ci_program& program, const ci::Isa& isa, const ci_step& step, const ci_rows& rows, float* out,
                int64_t pitch) {
  const bool many = (step.second ? step.second : step.first)->count >= step.alternative_from;
  const int kernel = many ? step.alternative : step.kernel;
  if (kernel < 0 || kernel >= CI_KERNELS) throw std::out_of_range("no such kernel");
  isa.kernels[kernel](program.threads, many ? step.alternative_params : step.params, rows, out, pitch);
}

// Zeros where squares of the set's changes and of their neighbours will lie.
void clear_squares(ci_program& program, const ci_set& active, const int32_t* rows) {
  const int64_t pitch = active.width + 2 * ci::kPoolRadius;
  const int64_t first = rows[0] / active.width, last = rows[active.count - 1] / active.width + 2 * ci::kPoolRadius;
  std::memset(program.squares.data() + first * pitch, 0, (last + 1 - first) * pitch * sizeof(float));
}

// How many of the rows [first, computed) can be committed: where changes are pooled, those whose neighbours are
// all computed, which those of the last line, perhaps not at its end, and of kPoolRadius lines above it are not.
int ready_rows(const ci_step& step, const int32_t* rows, int first, int computed) {
  if (step.criterion != CI_POOLED_SQUARES || computed == step.first->count) return computed - first;
  const int width = step.first->width, final_line = rows[computed - 1] / width - ci::kPoolRadius;
  return std::max<int>(0, std::lower_bound(rows + first, rows + computed, final_line * width) - (rows + first));
}

// Computes rows in batches beside the map and commits those that changed.
void compute_and_compare(ci_program& program, const ci::Isa& isa, const ci_step& step) {
  const ci_set& active = *step.first;
  ci_set& changed = *step.target;
  const int32_t* rows = ci::rows_of(active);
  const bool pooled = step.criterion == CI_POOLED_SQUARES;
  const int batch = std::max<int64_t>(64, kBatchFloats * ci::thread_count(program.threads) / step.channels);
  std::memset(changed.mask, 0, int64_t(changed.height) * changed.width);
  if (pooled) clear_squares(program, active, rows);
  const int64_t row_bytes = int64_t(step.channels) * step.value_bytes;
  char* computed = reinterpret_cast<char*>(program.computed.data());
  int count = 0;
  for (int committed = 0, end = 0; committed < active.count;) {  // rows in between lie at the front of `computed`
    const int size = std::min(batch, active.count - end);
    char* next = computed + (end - committed) * row_bytes;
    run_kernel(program, isa, step, ci_rows{rows + end, program.in_order.data(), size}, reinterpret_cast<float*>(next),
               step.channels);
    if (pooled) isa.measure(program.threads, step, next, rows + end, size, program.squares.data());
    end += size;
    const int ready = ready_rows(step, rows, committed, end);
    isa.commit(program.threads, step, computed, rows + committed, ready, program.squares.data(), program.mask.data());
    for (int i = 0; i < ready; ++i) {
      changed.mask[rows[committed + i]] = program.mask[i];
      changed.listed[count] = rows[committed + i];
      count += program.mask[i];
    }
    committed += ready;
    std::memmove(computed, computed + ready * row_bytes, (end - committed) * row_bytes);
  }
  changed.count = count;
}

// hold_back: whether small changes are.
void compute(ci_program& program, const ci::Isa& isa, const ci_step& step, bool hold_back) {
  const ci_set& active = *step.first;
  if (step.second && step.second->count == 0) return;
  if (active.count == 0) {
    if (step.target) ci::clear(*step.target);
    return;
  }
  if (step.target && hold_back) return compute_and_compare(program, isa, step);
  const int32_t* rows = ci::rows_of(active);
  run_kernel(program, isa, step, ci_rows{rows, rows, active.count}, step.out, step.pitch);
  if (step.target) copy_set(active, *step.target);
}

void merge(uint8_t* to, const uint8_t* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] |= from[i];
}

// What this machine computes of a tensor; what it leaves to the other gets out of date.
void local_rows(const ci_replica& replica, const ci::Isa& isa, const ci_set& active, ci_set& target) {
  const int64_t width = active.width, pixels = active.height * width;
  const int64_t first = replica.first_row * width, last = replica.last_row * width;
  std::memset(target.mask, 0, pixels);
  std::memcpy(target.mask + first, active.mask + first, last - first);
  merge(target.mask + first, replica.stale_local + first, last - first);
  merge(replica.stale_local, active.mask, first);
  merge(replica.stale_local + last, active.mask + last, pixels - last);
  std::memset(replica.stale_local + first, 0, last - first);
  isa.list(target);
}

void forward(const ci_replica& replica, const ci::Isa& isa, const ci_set& changed, const ci_set& active, ci_set& target) {
  const int64_t width = active.width, pixels = active.height * width;
  const int64_t first = replica.first_row * width, last = replica.last_row * width;
  std::memcpy(target.mask, active.mask, pixels);
  std::memcpy(target.mask + first, changed.mask + first, last - first);
  merge(replica.stale_remote, target.mask, pixels);  // what is computed elsewhere may differ from this machine's copy
  isa.list(target);
}

void run_step(ci_program& program, const ci::Isa& isa, const ci_step& step, int outside, bool refresh) {
  const int border = step.inwards ? 0 : outside;
  switch (step.kind) {
    case CI_PROPAGATE_WINDOW:
      return isa.propagate_window(*static_cast<const ci_window*>(step.params), *step.first, *step.target, border,
                             program.mask.data());
    case CI_PROPAGATE_TAPS:
      return isa.propagate_taps(*static_cast<const ci_tap_table*>(step.params), *step.first, *step.target, border,
                            program.mask.data());
    case CI_UNION: return isa.unite(*step.first, *step.second, *step.target);
    case CI_DIFFERENCE: return isa.subtract(*step.first, *step.second, *step.target);
    case CI_FILL_IF_ANY: return step.first->count > 0 || outside ? ci::fill(*step.target) : ci::clear(*step.target);
    // no level is far from all others: what moved in cannot be told from what was computed, and everything is passed on
    case CI_COMPUTE: return compute(program, isa, step, !refresh && !(outside && step.value_bytes == 1));
    case CI_LOCAL_ROWS: return local_rows(*static_cast<const ci_replica*>(step.params), isa, *step.first, *step.target);
    case CI_FORWARD:
      return forward(*static_cast<const ci_replica*>(step.params), isa, *step.first, *step.second, *step.target);
    case CI_NOTHING: return;
    default: throw std::out_of_range("no such step");
  }
}

// Keeps the workers from falling asleep while it lives.
class Awake {
 public:
  explicit Awake(ci_threads* threads) : threads_(threads) { ci::keep_awake(threads, true); }
  ~Awake() { ci::keep_awake(threads_, false); }
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  ci_threads* threads_;
};

}  // namespace

extern "C" {

// mask_bytes: for propagation, the largest (input + window) line plus input height * output width of any step; and at least
// one per row of a batch. rows: of the largest map. channels: the most that a step with a threshold has. pooled: pixels of the
// largest map that is pooled, with a margin of kPoolRadius. line_floats: of the largest line of such a map.
// Null where there is not enough memory.
ci_program* ci_program_create(ci_threads* threads, int64_t mask_bytes, int rows, int channels, int64_t pooled,
                              int64_t line_floats) {
  std::unique_ptr<ci_program> program;
  const int status = ci::attempted([&] {
    program = std::make_unique<ci_program>();
    program->threads = threads;
    const int64_t floats = std::max<int64_t>(64 * int64_t(channels), kBatchFloats * ci::thread_count(threads)) +
                           (ci::kPoolRadius + 1) * line_floats;
    program->mask.resize(std::max<int64_t>(mask_bytes, std::max<int64_t>(64, floats)));
    program->computed.resize(floats + 64);
    program->squares.resize(pooled);
    program->in_order.resize(std::max<int64_t>(rows, 64) + 8);
    for (size_t i = 0; i < program->in_order.size(); ++i) program->in_order[i] = static_cast<int32_t>(i);
  });
  return status == CI_DONE ? program.release() : nullptr;
}

void ci_program_destroy(ci_program* program) { delete program; }

// Runs steps first .. last - 1. outside: of ci_border. refresh: nothing is held back.
// microseconds: of each step, may be null.
// As of all functions that compute, what is returned says whether they did: after a failure what they write is undefined.
int ci_program_run(ci_program* program, const ci_step* steps, int first, int last, int outside, int refresh,
                   float* microseconds) {
  if (first == last) return CI_DONE;
  return ci::attempted([&] {
    const ci::Isa& isa = *ci::best_isa();
    const Awake awake(program->threads);
    using Clock = std::chrono::steady_clock;
    Clock::time_point before = Clock::now();
    for (int i = first; i < last; ++i) {
      run_step(*program, isa, steps[i], outside, refresh != 0);
      if (!microseconds) continue;
      const Clock::time_point after = Clock::now();
      microseconds[i] = std::chrono::duration<float, std::micro>(after - before).count();
      before = after;
    }
  });
}

// all: every touched pixel counts as changed.
int ci_write_input(ci_threads* threads, const ci_input* input, const uint8_t* image, const ci_set* touched,
                   ci_set* changed, int all) {
  return ci::attempted(
      [&] { ci::best_isa()->write_input(threads, *input, image, *touched, *changed, all != 0); });
}

// The same where the camera has moved.
int ci_paint_input(ci_threads* threads, const ci_input* input, const uint8_t* image, const ci_view* view,
                   ci_set* changed, int all) {
  return ci::attempted([&] { ci::best_isa()->paint_input(threads, *input, image, *view, *changed, all != 0); });
}

// from: only its mask has to be right. scratch: from's height * to's width bytes.
void ci_propagate(const ci_tap_table* table, ci_set* from, ci_set* to, uint8_t* scratch) {
  ci::best_isa()->list(*from);
  ci::best_isa()->propagate_taps(*table, *from, *to, 0, scratch);
}
}
