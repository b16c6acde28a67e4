// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Functions on active sets, and those that make them from data.
#pragma once

#include "vectors.h"

namespace CI_ISA {

void propagate_window(const ci_window& window, const ci_set& from, ci_set& to, int outside, uint8_t* scratch);
void propagate_taps(const ci_tap_table& table, const ci_set& from, ci_set& to, int outside, uint8_t* scratch);
void unite(const ci_set& first, const ci_set& second, ci_set& to);
void subtract(const ci_set& first, const ci_set& second, ci_set& to);
void list(ci_set& set);
void commit(ci_threads* threads, const ci_step& step, const void* computed, const int32_t* rows, int count,
            const float* squares, uint8_t* changed);
void measure(ci_threads* threads, const ci_step& step, const void* computed, const int32_t* rows, int count,
             float* squares);
void write_input(ci_threads* threads, const ci_input& input, const uint8_t* image, const ci_set& touched,
                 ci_set& changed, bool all);
void paint_input(ci_threads* threads, const ci_input& input, const uint8_t* image, const ci_view& view,
                 ci_set& changed, bool all);

}  // namespace CI_ISA
