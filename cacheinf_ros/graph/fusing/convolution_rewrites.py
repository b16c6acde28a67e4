# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rewrites that take padding, orders of channels, scales, shifts, activations and residuals into convolutions."""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.graph.activation import Activation
from cacheinf_ros.graph.fusing.pixel_rewrites import border_of
from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.ir import Combine, Concat, Conv, Elementwise, Resample, Select
from cacheinf_ros.graph.make_taps import every_second
from cacheinf_ros.graph.window import Pair, Window

_BLOCK = {(0, 0), (0, 1), (1, 0), (1, 1)}
"""The places of a block's pixels, (row, column)."""


def take_padding(done: Done, conv: Conv) -> Rewrite | None:
    """Rewrite conv(padded with zeros): the window begins further outside."""
    pad = done.made_by(conv.inputs[0], Resample)
    border = border_of(pad) if pad else None
    if pad is None or border is None or pad.fill != 0:
        return None
    window = replace(
        conv.window,
        in_size=(pad.rows.in_size, pad.columns.in_size),
        padding=(conv.window.padding[0] + border[0][0], conv.window.padding[1] + border[1][0]),
    )
    return Rewrite(operators=(replace(conv, inputs=(pad.inputs[0], *conv.inputs[1:]), window=window),))


def take_order(done: Done, conv: Conv) -> Rewrite | None:
    """Rewrite conv(channels in another order): the weights get that order."""
    select = done.made_by(conv.inputs[0], Select)
    if select is None or conv.groups != 1:
        return None
    order = torch.tensor(select.channels)
    if len(order) != done.tensors[select.inputs[0]].channels or len(order.unique()) != len(order):
        return None
    weight = conv.weight[:, order.argsort()]
    return Rewrite(operators=(replace(conv, inputs=(select.inputs[0], *conv.inputs[1:]), weight=weight),))


def take_affine(done: Done, conv: Conv) -> Rewrite | None:
    """Rewrite conv(x * scale + shift) as conv(x), unless the padding would have to be shifted too."""
    affine = done.sole(conv.inputs[0], Elementwise)
    if affine is None or affine.combine is not None or not affine.activation.is_linear:
        return None
    if affine.shift is not None and _reads_padding(conv.window):
        return None
    grouped = conv.weight.double().unflatten(0, (conv.groups, -1))  # [groups, out / groups, in / groups, y, x]
    bias = conv.bias.double()
    if affine.shift is not None:
        shift = affine.shift.double().view(conv.groups, 1, -1, 1, 1)
        bias = bias + (grouped * shift).sum((2, 3, 4)).flatten()
    if affine.scale is not None:
        grouped = grouped * affine.scale.double().view(conv.groups, 1, -1, 1, 1)
    inputs = (affine.inputs[0], *conv.inputs[1:])
    merged = replace(conv, inputs=inputs, weight=grouped.flatten(0, 1).float(), bias=bias.float())
    return Rewrite(absorbed=(affine,), operators=(merged,))


def take_grey(done: Done, conv: Conv) -> Rewrite | None:
    """Rewrite conv(colours of the picture mixed into one channel, pixel by pixel) as one convolution.

    It multiplies three times as often, which is little for a first layer, and saves a map of full resolution; the
    layers that stay in float32 where others are in 16 bits (engine/stem.py) are the network's own.
    """
    mix = done.sole(conv.inputs[0], Conv)
    if mix is None or mix.inputs[0] in done.operators or not _is_mix(mix) or conv.groups != 1:
        return None
    if mix.bias.any() and _reads_padding(conv.window):
        return None
    weight, factors = conv.weight.double(), mix.weight[:, :, 0, 0].double()
    merged = torch.einsum("omyx,mc->ocyx", weight, factors)
    bias = conv.bias.double() + torch.einsum("omyx,m->o", weight, mix.bias.double())
    inputs = (mix.inputs[0], *conv.inputs[1:])
    return Rewrite(absorbed=(mix,), operators=(replace(conv, inputs=inputs, weight=merged.float(), bias=bias.float()),))


def take_focus(done: Done, conv: Conv) -> Rewrite | None:
    """Rewrite conv(the four pixels of each 2x2 block of x, side by side as channels) as one convolution of x.

    YOLOX and early versions of YOLOv5 begin so. The window is twice as large and has a quarter of the channels.
    """
    blocks = done.sole(conv.inputs[0], Concat)
    moves = [done.made_by(name, Resample) for name in blocks.inputs] if blocks else []
    offsets = [(every_second(move.rows), every_second(move.columns)) for move in moves if move]
    if blocks is None or set(offsets) != _BLOCK or len(offsets) != len(_BLOCK) or conv.groups != 1:
        return None
    (source, *others) = {move.inputs[0] for move in moves if move}
    if others or conv.window.dilation != (1, 1):
        return None
    outputs, inputs, height, width = conv.weight.shape
    channels = inputs // len(offsets)
    weight = conv.weight.new_empty((outputs, channels, 2 * height, 2 * width))
    for (row, column), part in zip(offsets, conv.weight.split(channels, dim=1), strict=True):
        weight[:, :, row::2, column::2] = part
    window = Window(
        in_size=_twice(conv.window.in_size), out_size=conv.window.out_size, kernel=_twice(conv.window.kernel),
        stride=_twice(conv.window.stride), padding=_twice(conv.window.padding),
    )  # fmt: skip
    merged = replace(conv, inputs=(source, *conv.inputs[1:]), weight=weight, window=window)
    return Rewrite(absorbed=(blocks,), operators=(merged,))


def _twice(lengths: Pair) -> Pair:
    return 2 * lengths[0], 2 * lengths[1]


def _is_mix(conv: Conv) -> bool:
    """Tell whether each output pixel is one linear function of the same pixel of the only input."""
    is_plain = len(conv.inputs) == 1 and conv.groups == 1 and conv.activation.is_linear
    return is_plain and len(conv.weight) == 1 and conv.window.is_pointwise


def choose_outputs(done: Done, select: Select) -> Rewrite | None:
    """Rewrite a selection of channels of conv(x), in any order: only those are computed."""
    conv = done.sole(select.inputs[0], Conv)
    if conv is None or conv.groups != 1 or len(conv.inputs) > 1 or len(select.channels) > len(conv.bias):
        return None
    order = torch.tensor(select.channels)
    activation = conv.activation
    if activation.slope is not None:
        activation = replace(activation, slope=activation.slope[order])
    chosen = replace(
        conv, output=select.output, weight=conv.weight[order], bias=conv.bias[order], activation=activation
    )
    return Rewrite(absorbed=(conv,), operators=(chosen,))


def take_elementwise(done: Done, operator: Elementwise) -> Rewrite | None:
    """Rewrite activation(conv(x) * scale + shift) as one convolution."""
    conv = done.sole(operator.inputs[0], Conv) if operator.combine is None else None
    if conv is None or not conv.activation.is_linear:
        return None
    if len(conv.inputs) > 1 and operator.is_affine:
        return None
    scaled = _scaled(conv, operator.scale, operator.shift)
    return Rewrite(
        absorbed=(conv,), operators=(replace(scaled, output=operator.output, activation=operator.activation),)
    )


def take_residual(done: Done, operator: Elementwise) -> Rewrite | None:
    """Rewrite conv(x) + y as one convolution, where both have as many pixels."""
    if operator.combine is not Combine.ADD or operator.is_affine:
        return None
    if len({done.tensors[name].size for name in (*operator.inputs, operator.output)}) > 1:
        return None
    found = [conv for name in operator.inputs if (conv := done.sole(name, Conv)) and len(conv.inputs) == 1]
    order = list(done.operators)
    for conv in sorted(found, key=lambda conv: order.index(conv.output), reverse=True):
        residual = next(name for name in operator.inputs if name != conv.output)
        merged = _with_residual(conv, residual, operator.activation)
        if merged is not None:
            return Rewrite(absorbed=(conv,), operators=(replace(merged, output=operator.output),))
    return None


def _with_residual(conv: Conv, residual: str, activation: Activation) -> Conv | None:
    """Add a residual to a convolution, with the activation before or after the sum; None: there would be two."""
    inputs = (conv.inputs[0], residual)
    if conv.activation.is_linear:
        return replace(conv, inputs=inputs, activation=activation)
    return replace(conv, inputs=inputs, residual_last=True) if activation.is_linear else None


def _scaled(conv: Conv, scale: torch.Tensor | None, shift: torch.Tensor | None) -> Conv:
    weight, bias = conv.weight.double(), conv.bias.double()
    if scale is not None:
        weight, bias = weight * scale.double().view(-1, 1, 1, 1), bias * scale.double()
    if shift is not None:
        bias = bias + shift.double()
    return replace(conv, weight=weight.float(), bias=bias.float())


def _reads_padding(window: Window) -> bool:
    """Tell whether any output depends on pixels outside the image."""
    for axis in (0, 1):
        reach = (window.out_size[axis] - 1) * window.stride[axis] + window.dilation[axis] * (window.kernel[axis] - 1)
        if window.padding[axis] > 0 or reach - window.padding[axis] >= window.in_size[axis]:
            return True
    return False
