// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// How a convolution that prepares blocks of rows for panels of weights is divided into tasks.
#pragma once

#include "vectors.h"

namespace CI_ISA {

inline int wanted_tasks(ci_threads* threads) { return ci::thread_count(threads) > 1 ? 4 * ci::thread_count(threads) : 1; }

// Chooses chunk, span and panel_groups of a job with so many blocks and panels; returns how many spans there are.
// few: so few weights that they are read again for every block, whose rows then stay in the L1; many are read once for
// as many blocks as `fits` says.
template <class Job>
int divide(Job& job, bool few, int64_t fits) {
  // Tasks share the rows where there are enough of them, otherwise the weights, which come from far away.
  const int together = few ? 1 : int(std::max<int64_t>(1, fits)), wanted = wanted_tasks(job.threads);
  const int chunks = (job.blocks + together - 1) / together;
  job.chunk = (job.blocks + chunks - 1) / chunks;
  job.span = std::max(1, chunks / wanted) * job.chunk;
  const int spans = (job.blocks + job.span - 1) / job.span;
  job.panel_groups = std::min(job.panels, few ? std::max(1, wanted / (2 * spans)) : (wanted + spans - 1) / spans);
  return spans;
}

}  // namespace CI_ISA
