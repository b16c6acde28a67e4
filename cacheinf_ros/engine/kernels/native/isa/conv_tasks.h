// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// How a convolution that prepares blocks of rows for panels of weights is divided into tasks.
#pragma once

#include "vectors.h"

namespace CI_ISA {

inline int wanted_tasks(ci_threads* threads) { return ci::thread_count(threads) > 1 ? 4 * ci::thread_count(threads) : 1; }

// Chooses chunk, span and panel_groups of a job with so many blocks and panels; returns how many spans there are.
// few: so few weights that they are read again for every block, whose rows then stay in the L1; many are read once for
// as many blocks as `fits` says, a multiple of `at_once` where there are enough.
template <class Job>
int divide(Job& job, bool few, int64_t fits, int at_once = 1) {
  // Tasks share the rows where there are enough of them, otherwise the weights, which come from far away.
  const int together = few ? 1 : int(std::max<int64_t>(1, fits)), wanted = wanted_tasks(job.threads);
  const int chunks = (job.blocks + together - 1) / together;
  job.chunk = ((job.blocks + chunks - 1) / chunks + at_once - 1) / at_once * at_once;
  job.span = std::max(1, chunks / wanted) * job.chunk;
  const int spans = (job.blocks + job.span - 1) / job.span;
  job.panel_groups = std::min(job.panels, few ? std::max(1, wanted / (2 * spans)) : (wanted + spans - 1) / spans);
  return spans;
}

// What a task of such a job computes: blocks from first to before last, panels from `from` to before `to`.
struct TaskShare {
  int first, last, from, to;

  template <class Job>
  TaskShare(const Job& job, int task) {
    first = task / job.panel_groups * job.span;
    last = std::min(first + job.span, job.blocks);
    const int share = task % job.panel_groups;
    from = share * job.panels / job.panel_groups;
    to = (share + 1) * job.panels / job.panel_groups;
  }
};

// A job on these rows, in blocks of equal size of `most` or less: a thin last block would be slow.
template <class Job, class Conv>
Job job_on(ci_threads* threads, const Conv& conv, const ci_rows& rows, float* out, int64_t pitch, int most) {
  Job job{};
  job.conv = &conv;
  job.rows = rows.rows;
  job.to = rows.to;
  job.out = out;
  job.pitch = pitch;
  job.count = rows.count;
  job.threads = threads;
  job.blocks = (rows.count + most - 1) / most;
  job.block = (rows.count + job.blocks - 1) / job.blocks;
  job.blocks = (rows.count + job.block - 1) / job.block;
  return job;
}

// Finishes the sums of a register tile one vector after the other: finish(row, vector, lanes, sum). They go through
// memory: sums are in registers only if they are never indexed by a variable.
template <class Sum, int ROWS, int VECTORS, class Finish>
inline __attribute__((always_inline)) void finish_each(const Sum (&sums)[ROWS][VECTORS], int width, const Finish& finish) {
  Sum kept[ROWS][VECTORS];
  std::memcpy(kept, sums, sizeof(kept));
#pragma GCC unroll 1
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 1
    for (int v = 0; v < VECTORS; ++v) {
      const int lanes = std::min(kLanes, width - v * kLanes);
      if (lanes > 0) finish(r, v, lanes, kept[r][v]);
    }
}

}  // namespace CI_ISA
