// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Parallel loops over the listed rows of a kernel.
#pragma once

#include "vectors.h"

namespace CI_ISA {

constexpr int64_t kSpanCost = 32 * 1024;  // of a task: a few microseconds, which is what handing it out is worth
constexpr int kSpansPerThread = 8;        // so that a thread that was held up does not hold up the others for long

// Calls body(first, last, worker) on spans that make up 0 .. count - 1, in parallel where that is worth it.
// cost: of one item, in floats that are read, computed or written.
template <class Body>
void for_spans(ci_threads* threads, int count, int64_t cost, const Body& body) {
  struct Spans {
    const Body& body;
    int64_t count, spans;
  };
  const int thread_count = ci::thread_count(threads);
  const int64_t most = thread_count == 1 ? 1 : int64_t(kSpansPerThread) * thread_count;
  const int64_t spans = std::min<int64_t>({count, most, count * cost / kSpanCost + 1});
  if (spans <= 1) {
    if (count > 0) body(0, count, 0);
    return;
  }
  Spans context{body, count, spans};
  const auto run = [](void* context, int task, int worker) {
    const Spans& s = *static_cast<Spans*>(context);
    s.body(int(task * s.count / s.spans), int((task + 1) * s.count / s.spans), worker);
  };
  ci::parallel_for(threads, int(spans), run, &context);
}

}  // namespace CI_ISA
