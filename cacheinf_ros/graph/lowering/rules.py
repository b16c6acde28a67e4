# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Assign to ATen operators the functions that translate them into local ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any

import torch

from cacheinf_ros.graph.activation import ActivationKind
from cacheinf_ros.graph.ir import Combine
from cacheinf_ros.graph.lowering import (
    activations,
    arithmetic,
    channelwise,
    convolution,
    pooling,
    reductions,
    resizing,
    volumes,
)
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.view import View

aten = torch.ops.aten

Rule = Callable[..., View]
"""A function (builder, *arguments of the schema, **those with keywords) -> result, which may raise NotLocal."""


def _or_of_volumes(flat: Rule, volume: Rule) -> Rule:
    """Return the rule that is the first, or, where the result has depth, too, and the first does not apply, the second.

    Both take the same arguments.
    """

    @wraps(flat)
    def rule(b: Builder, *arguments: Any, **keywords: Any) -> View:
        try:
            return flat(b, *arguments, **keywords)
        except NotLocal:
            if len(b.shape) != 5:
                raise
        return volume(b, *arguments, **keywords)

    return rule


_FUNCTIONS = (
    aten.abs, aten.atan, aten.ceil, aten.cos, aten.erf, aten.exp, aten.expm1, aten.floor, aten.log, aten.log10,
    aten.log1p, aten.log2, aten.reciprocal, aten.round, aten.rsqrt, aten.sign, aten.sin, aten.sqrt, aten.tan,
    aten.trunc, aten.frac, aten.hardshrink, aten.softshrink, aten.nan_to_num,
)  # fmt: skip

_ACTIVATIONS: dict[Any, Rule] = {
    aten.celu.default: activations.celu,
    aten.clamp.default: activations.clamp,
    aten.clamp_max.default: activations.clamp_max,
    aten.clamp_min.default: activations.clamp,
    aten.elu.default: activations.elu,
    aten.fake_quantize_per_tensor_affine.default: activations.function(aten.fake_quantize_per_tensor_affine.default),
    aten.gelu.default: activations.gelu,
    aten.hardsigmoid.default: activations.plain(ActivationKind.HARDSIGMOID),
    aten.hardswish.default: activations.plain(ActivationKind.HARDSWISH),
    aten.hardtanh.default: activations.clamp,
    aten.leaky_relu.default: activations.leaky_relu,
    aten.log_sigmoid.default: activations.log_sigmoid,
    aten.mish.default: activations.plain(ActivationKind.MISH),
    aten.prelu.default: activations.prelu,
    aten.relu.default: activations.relu,
    aten.relu6.default: activations.relu6,
    aten.rrelu.default: activations.rrelu,
    aten.selu.default: activations.selu,
    aten.sigmoid.default: activations.plain(ActivationKind.SIGMOID),
    aten.silu.default: activations.plain(ActivationKind.SILU),
    aten.softplus.default: activations.softplus,
    aten.tanh.default: activations.plain(ActivationKind.TANH),
    aten.threshold.default: activations.threshold,
    **{packet.default: activations.function(packet.default) for packet in _FUNCTIONS},
}

_ARITHMETIC: dict[Any, Rule] = {
    aten.add.Scalar: arithmetic.add,
    aten.add.Tensor: arithmetic.add,
    aten.addcmul.default: arithmetic.addcmul,
    aten.div.Scalar: arithmetic.div,
    aten.div.Tensor: arithmetic.div,
    aten.glu.default: arithmetic.glu,
    aten.maximum.default: arithmetic.extremum(Combine.MAXIMUM),
    aten.minimum.default: arithmetic.extremum(Combine.MINIMUM),
    aten.mul.Scalar: arithmetic.mul,
    aten.mul.Tensor: arithmetic.mul,
    aten.neg.default: arithmetic.neg,
    aten.pow.Tensor_Scalar: arithmetic.power,
    aten.rsub.Scalar: arithmetic.rsub,
    aten.rsub.Tensor: arithmetic.rsub,
    aten.square.default: arithmetic.square,
    aten.sub.Scalar: arithmetic.sub,
    aten.sub.Tensor: arithmetic.sub,
}

_WINDOWS: dict[Any, Rule] = {
    aten.adaptive_avg_pool2d.default: pooling.adaptive_avg_pool2d,
    aten._adaptive_avg_pool2d.default: pooling.adaptive_avg_pool2d,
    aten.adaptive_max_pool2d.default: pooling.adaptive_max_pool2d,
    aten.avg_pool2d.default: pooling.avg_pool2d,
    aten.avg_pool3d.default: _or_of_volumes(channelwise.mean_of_neighbours, volumes.avg_pool3d),
    aten.conv2d.default: convolution.conv2d,
    aten.conv2d.padding: convolution.conv2d,
    aten.conv3d.default: volumes.conv3d,
    aten.conv3d.padding: volumes.conv3d,
    aten.conv_transpose2d.input: convolution.conv_transpose2d,
    aten.conv_transpose3d.input: volumes.conv_transpose3d,
    aten.convolution.default: _or_of_volumes(
        convolution.convolution(convolution.conv2d, convolution.conv_transpose2d),
        convolution.convolution(volumes.conv3d, volumes.conv_transpose3d),
    ),
    aten.max_pool2d.default: pooling.max_pool2d,
    aten.max_pool2d_with_indices.default: pooling.max_pool2d,
    aten.max_pool3d.default: volumes.max_pool3d,
    aten.max_pool3d_with_indices.default: volumes.max_pool3d,
}

_RESIZES = (
    aten.upsample_nearest2d, aten._upsample_nearest_exact2d, aten.upsample_bilinear2d, aten.upsample_bicubic2d,
    aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa,
)  # fmt: skip

_RESIZES_OF_VOLUMES = (
    (aten.upsample_nearest2d, aten.upsample_nearest3d),
    (aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d),
    (aten.upsample_bilinear2d, aten.upsample_trilinear3d),
)

_PIXELS: dict[Any, Rule] = {
    **{packet.vec: resizing.resize(packet.default, by_axis=False) for packet in _RESIZES},
    **{packet.default: resizing.resize(packet.default, by_axis=True) for packet in _RESIZES},
    **{v.vec: volumes.resize(flat.default, v.default, by_axis=False) for flat, v in _RESIZES_OF_VOLUMES},
    **{v.default: volumes.resize(flat.default, v.default, by_axis=True) for flat, v in _RESIZES_OF_VOLUMES},
    aten.constant_pad_nd.default: _or_of_volumes(resizing.constant_pad, volumes.constant_pad),
    aten.pad.default: _or_of_volumes(resizing.pad, volumes.pad_volume),
    aten.reflection_pad2d.default: resizing.pad_in_mode("reflect"),
    aten.replication_pad2d.default: resizing.pad_in_mode("replicate"),
}

_CHANNELS: dict[Any, Rule] = {
    aten._log_softmax.default: channelwise.softmax(log=True),
    aten._native_batch_norm_legit_no_training.default: channelwise.native_batch_norm,
    aten._softmax.default: channelwise.softmax(log=False),
    aten.addmm.default: channelwise.addmm,
    aten.batch_norm.default: channelwise.norm_by_statistics,
    aten.cat.default: _or_of_volumes(channelwise.concat, volumes.concat),
    aten.instance_norm.default: channelwise.norm_by_statistics,
    aten.layer_norm.default: channelwise.layer_norm,
    aten.linear.default: channelwise.linear,
    aten.log_softmax.int: channelwise.softmax(log=True),
    aten.matmul.default: channelwise.matmul,
    aten.mm.default: channelwise.matmul,
    aten.native_layer_norm.default: channelwise.layer_norm,
    aten.rms_norm.default: channelwise.rms_norm,
    aten.stack.default: channelwise.stack,
    aten.softmax.int: channelwise.softmax(log=False),
}

_REDUCTIONS: dict[Any, Rule] = {
    aten.amax.default: reductions.largest,
    aten.amin.default: reductions.smallest,
    aten.linalg_vector_norm.default: reductions.vector_norm,
    aten.logsumexp.default: reductions.over_channels(torch.logsumexp),
    aten.max.dim: reductions.largest,
    aten.mean.dim: reductions.mean,
    aten.min.dim: reductions.smallest,
    aten.norm.ScalarOpt_dim: reductions.norm,
    aten.std.correction: reductions.variance(torch.std),
    aten.std.dim: reductions.variance_unbiased(torch.std),
    aten.sum.dim_IntList: reductions.total,
    aten.var.correction: reductions.variance(torch.var),
    aten.var.dim: reductions.variance_unbiased(torch.var),
}

# Operators of which any argument may depend on the image; of all others only the first may.
OF_SEVERAL = frozenset({*_ARITHMETIC, aten.addmm.default, aten.cat.default, aten.stack.default})

RULES: Mapping[Any, Rule] = MappingProxyType(
    {**_ACTIVATIONS, **_ARITHMETIC, **_WINDOWS, **_PIXELS, **_CHANNELS, **_REDUCTIONS}
)
