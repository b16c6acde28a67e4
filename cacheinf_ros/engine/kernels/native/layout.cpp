// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Sizes, offsets and constants as they were compiled: ../abi.py compares them with its own when it loads the library.
#include <cstddef>

#include "kernels.h"

namespace {
struct Entry {
  const char* name;  // null: the end
  int64_t value;
};

#define SIZE(type) {#type, sizeof(type)}
#define FIELD(type, field) {#type "." #field, offsetof(type, field)}
#define CONSTANT(name) {#name, name}

constexpr Entry kLayout[] = {
    SIZE(ci_window), FIELD(ci_window, in_height), FIELD(ci_window, in_width), FIELD(ci_window, out_height),
    FIELD(ci_window, out_width), FIELD(ci_window, kernel_y), FIELD(ci_window, kernel_x), FIELD(ci_window, stride_y),
    FIELD(ci_window, stride_x), FIELD(ci_window, dilation_y), FIELD(ci_window, dilation_x), FIELD(ci_window, pad_y),
    FIELD(ci_window, pad_x),
    SIZE(ci_activation), FIELD(ci_activation, kind), FIELD(ci_activation, low), FIELD(ci_activation, high),
    FIELD(ci_activation, alpha), FIELD(ci_activation, slope),
    SIZE(ci_conv), FIELD(ci_conv, window), FIELD(ci_conv, groups), FIELD(ci_conv, in_channels),
    FIELD(ci_conv, out_channels), FIELD(ci_conv, residual_last), FIELD(ci_conv, activation), FIELD(ci_conv, in_pitch),
    FIELD(ci_conv, residual_pitch), FIELD(ci_conv, in), FIELD(ci_conv, weight), FIELD(ci_conv, bias),
    FIELD(ci_conv, residual), FIELD(ci_conv, whole_lines), FIELD(ci_conv, writes_floats),
    SIZE(ci_pool), FIELD(ci_pool, window), FIELD(ci_pool, channels), FIELD(ci_pool, average),
    FIELD(ci_pool, count_padding), FIELD(ci_pool, reserved), FIELD(ci_pool, in_pitch), FIELD(ci_pool, in),
    SIZE(ci_elementwise), FIELD(ci_elementwise, combine), FIELD(ci_elementwise, channels),
    FIELD(ci_elementwise, activation), FIELD(ci_elementwise, a_pitch), FIELD(ci_elementwise, b_pitch),
    FIELD(ci_elementwise, a), FIELD(ci_elementwise, b), FIELD(ci_elementwise, scale), FIELD(ci_elementwise, shift),
    SIZE(ci_channel_norm), FIELD(ci_channel_norm, channels), FIELD(ci_channel_norm, epsilon),
    FIELD(ci_channel_norm, in_pitch), FIELD(ci_channel_norm, in), FIELD(ci_channel_norm, weight),
    FIELD(ci_channel_norm, bias),
    SIZE(ci_channel_softmax), FIELD(ci_channel_softmax, channels), FIELD(ci_channel_softmax, log),
    FIELD(ci_channel_softmax, in_pitch), FIELD(ci_channel_softmax, in),
    SIZE(ci_resample), FIELD(ci_resample, channels), FIELD(ci_resample, in_width), FIELD(ci_resample, out_width),
    FIELD(ci_resample, taps_y), FIELD(ci_resample, taps_x), FIELD(ci_resample, fill), FIELD(ci_resample, in_pitch),
    FIELD(ci_resample, in), FIELD(ci_resample, index_y), FIELD(ci_resample, index_x), FIELD(ci_resample, weight_y),
    FIELD(ci_resample, weight_x),
    SIZE(ci_pixel_shuffle), FIELD(ci_pixel_shuffle, channels), FIELD(ci_pixel_shuffle, out_width),
    FIELD(ci_pixel_shuffle, factor), FIELD(ci_pixel_shuffle, phase_major), FIELD(ci_pixel_shuffle, in_pitch),
    FIELD(ci_pixel_shuffle, in),
    SIZE(ci_select), FIELD(ci_select, channels), FIELD(ci_select, reserved), FIELD(ci_select, in_pitch),
    FIELD(ci_select, in), FIELD(ci_select, index),
    SIZE(ci_global_mean), FIELD(ci_global_mean, channels), FIELD(ci_global_mean, pixels),
    FIELD(ci_global_mean, in_pitch), FIELD(ci_global_mean, in),
    SIZE(ci_levels), FIELD(ci_levels, scale), FIELD(ci_levels, zero),
    SIZE(ci_conv_int8), FIELD(ci_conv_int8, window), FIELD(ci_conv_int8, groups), FIELD(ci_conv_int8, in_channels),
    FIELD(ci_conv_int8, out_channels), FIELD(ci_conv_int8, residual_last), FIELD(ci_conv_int8, activation),
    FIELD(ci_conv_int8, in_pitch), FIELD(ci_conv_int8, residual_pitch), FIELD(ci_conv_int8, in),
    FIELD(ci_conv_int8, weight), FIELD(ci_conv_int8, bias), FIELD(ci_conv_int8, multiplier),
    FIELD(ci_conv_int8, residual), FIELD(ci_conv_int8, unit), FIELD(ci_conv_int8, residual_factor),
    FIELD(ci_conv_int8, residual_zero), FIELD(ci_conv_int8, in_zero), FIELD(ci_conv_int8, out),
    FIELD(ci_conv_int8, whole_lines), FIELD(ci_conv_int8, reserved),
    SIZE(ci_pool_int8), FIELD(ci_pool_int8, pool), FIELD(ci_pool_int8, factor), FIELD(ci_pool_int8, in_zero),
    FIELD(ci_pool_int8, out_zero), FIELD(ci_pool_int8, reserved),
    SIZE(ci_elementwise_int8), FIELD(ci_elementwise_int8, elementwise), FIELD(ci_elementwise_int8, a),
    FIELD(ci_elementwise_int8, b), FIELD(ci_elementwise_int8, out),
    SIZE(ci_resample_int8), FIELD(ci_resample_int8, resample), FIELD(ci_resample_int8, factor),
    FIELD(ci_resample_int8, in_zero), FIELD(ci_resample_int8, out_zero), FIELD(ci_resample_int8, fill),
    SIZE(ci_global_mean_int8), FIELD(ci_global_mean_int8, mean), FIELD(ci_global_mean_int8, in),
    FIELD(ci_global_mean_int8, out),
    SIZE(ci_convert), FIELD(ci_convert, channels), FIELD(ci_convert, reserved), FIELD(ci_convert, in_pitch),
    FIELD(ci_convert, in), FIELD(ci_convert, from), FIELD(ci_convert, to),
    SIZE(ci_set), FIELD(ci_set, mask), FIELD(ci_set, listed), FIELD(ci_set, all), FIELD(ci_set, height),
    FIELD(ci_set, width), FIELD(ci_set, count), FIELD(ci_set, reserved),
    SIZE(ci_tap_table), FIELD(ci_tap_table, taps_y), FIELD(ci_tap_table, taps_x), FIELD(ci_tap_table, index_y),
    FIELD(ci_tap_table, index_x),
    SIZE(ci_replica), FIELD(ci_replica, first_row), FIELD(ci_replica, last_row), FIELD(ci_replica, stale_local),
    FIELD(ci_replica, stale_remote),
    SIZE(ci_step), FIELD(ci_step, kind), FIELD(ci_step, kernel), FIELD(ci_step, params), FIELD(ci_step, first),
    FIELD(ci_step, second), FIELD(ci_step, target), FIELD(ci_step, out), FIELD(ci_step, pitch),
    FIELD(ci_step, channels), FIELD(ci_step, criterion), FIELD(ci_step, threshold), FIELD(ci_step, alternative),
    FIELD(ci_step, weight), FIELD(ci_step, alternative_params), FIELD(ci_step, alternative_from),
    FIELD(ci_step, inwards), FIELD(ci_step, value_bytes), FIELD(ci_step, reserved),
    SIZE(ci_shift), FIELD(ci_shift, pixels), FIELD(ci_shift, height), FIELD(ci_shift, width), FIELD(ci_shift, channels),
    FIELD(ci_shift, dx), FIELD(ci_shift, dy), FIELD(ci_shift, value_bytes),
    SIZE(ci_input), FIELD(ci_input, height), FIELD(ci_input, width), FIELD(ci_input, order),
    FIELD(ci_input, threshold), FIELD(ci_input, weight), FIELD(ci_input, value_bytes), FIELD(ci_input, table),
    FIELD(ci_input, kept),
    FIELD(ci_input, composed), FIELD(ci_input, seen), FIELD(ci_input, out), FIELD(ci_input, pitch),
    SIZE(ci_view), FIELD(ci_view, to_frame), FIELD(ci_view, back), FIELD(ci_view, marked), FIELD(ci_view, unseen),
    FIELD(ci_view, tiles),
    CONSTANT(CI_LINEAR), CONSTANT(CI_CLAMP), CONSTANT(CI_PRELU), CONSTANT(CI_SIGMOID), CONSTANT(CI_TANH),
    CONSTANT(CI_SILU), CONSTANT(CI_HARDSIGMOID), CONSTANT(CI_HARDSWISH), CONSTANT(CI_GELU), CONSTANT(CI_GELU_TANH),
    CONSTANT(CI_ELU), CONSTANT(CI_SOFTPLUS), CONSTANT(CI_MISH),
    CONSTANT(CI_FIRST), CONSTANT(CI_ADD), CONSTANT(CI_SUB), CONSTANT(CI_MUL), CONSTANT(CI_DIV), CONSTANT(CI_MAXIMUM),
    CONSTANT(CI_MINIMUM),
    CONSTANT(CI_CONV), CONSTANT(CI_CONV_IN_PLACE), CONSTANT(CI_DEPTHWISE),
    CONSTANT(CI_POOL), CONSTANT(CI_ELEMENTWISE), CONSTANT(CI_CHANNEL_NORM), CONSTANT(CI_CHANNEL_SOFTMAX),
    CONSTANT(CI_RESAMPLE), CONSTANT(CI_PIXEL_SHUFFLE), CONSTANT(CI_SELECT), CONSTANT(CI_GLOBAL_MEAN),
    CONSTANT(CI_CONV_BFLOAT16), CONSTANT(CI_CONV_BFLOAT16_WIDENED), CONSTANT(CI_DEPTHWISE_BFLOAT16),
    CONSTANT(CI_POOL_BFLOAT16), CONSTANT(CI_ELEMENTWISE_BFLOAT16), CONSTANT(CI_CHANNEL_NORM_BFLOAT16),
    CONSTANT(CI_RESAMPLE_BFLOAT16), CONSTANT(CI_PIXEL_SHUFFLE_BFLOAT16), CONSTANT(CI_SELECT_BFLOAT16),
    CONSTANT(CI_GLOBAL_MEAN_BFLOAT16), CONSTANT(CI_WIDEN), CONSTANT(CI_NARROW),
    CONSTANT(CI_CONV_INT8), CONSTANT(CI_CONV_INT8_PAIRS), CONSTANT(CI_DEPTHWISE_INT8), CONSTANT(CI_POOL_INT8),
    CONSTANT(CI_ELEMENTWISE_INT8), CONSTANT(CI_RESAMPLE_INT8), CONSTANT(CI_PIXEL_SHUFFLE_INT8),
    CONSTANT(CI_SELECT_INT8), CONSTANT(CI_GLOBAL_MEAN_INT8), CONSTANT(CI_CONVERT),
    CONSTANT(CI_CONV_BFLOAT16_TILES), CONSTANT(CI_CONV_INT8_TILES), CONSTANT(CI_KERNELS),
    CONSTANT(CI_LEFT), CONSTANT(CI_RIGHT), CONSTANT(CI_TOP), CONSTANT(CI_BOTTOM),
    CONSTANT(CI_MAXIMUM_CHANGE), CONSTANT(CI_SUM_OF_SQUARES), CONSTANT(CI_POOLED_SQUARES),
    CONSTANT(CI_PROPAGATE_WINDOW), CONSTANT(CI_PROPAGATE_TAPS), CONSTANT(CI_UNION), CONSTANT(CI_DIFFERENCE),
    CONSTANT(CI_FILL_IF_ANY), CONSTANT(CI_COMPUTE), CONSTANT(CI_LOCAL_ROWS), CONSTANT(CI_FORWARD),
    CONSTANT(CI_NOTHING),
    CONSTANT(CI_DONE), CONSTANT(CI_NO_MEMORY), CONSTANT(CI_NONSENSE),
    {"kPoolRadius", ci::kPoolRadius},
    {nullptr, 0},
};
}  // namespace

extern "C" const Entry* ci_layout() { return kLayout; }
