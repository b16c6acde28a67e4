# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for functions of single values, of one or of two tensors, whatever the order of their dimensions.

Moving elements and computing each on its own commute. So a function of a view is computed on its source and viewed in
the same way; only where that would compute more than is shown, or where two tensors are viewed in different ways, are
the views made maps first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from cacheinf_ros.graph.activation import LINEAR, Activation
from cacheinf_ros.graph.ir import Combine, Elementwise, Pointwise, Resample, TensorRef
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.view import Layout, Shape, View
from cacheinf_ros.graph.make_taps import taps_at

Constant = torch.Tensor | float
Operand = Callable[[Builder, Layout, View, View], View]
"""How the first of two views becomes a map of a layout."""

_SWAPPED = {Combine.ADD, Combine.MUL, Combine.MAXIMUM, Combine.MINIMUM}


def commuting(b: Builder, view: View) -> View:
    """View the same values so that a function of single values may be computed on the source instead.

    Raises:
        NotLocal: there is no such map.
    """
    if b.is_float_map(view) and view.numel >= torch.Size(view.source.shape).numel():
        return view
    for layout in _layouts(view):
        try:
            return layout.from_map(b.feature_map(layout.to_map(view)))
        except NotLocal:
            continue
    if len(view.shape) == 5:
        return b.feature_map(view.as_image()).reshaped(view.shape)
    raise NotLocal


def affine(
    b: Builder,
    x: View,
    *,
    scale: Constant | None = None,
    shift: Constant | None = None,
    activation: Activation = LINEAR,
) -> View:
    """Compute activation(x * scale + shift), where constants broadcast as in torch.

    Raises:
        NotLocal: there is no such map, or the constants differ from pixel to pixel.
    """
    x = commuting(b, _broadcast(x, scale, shift))
    source = View.of(x.source)
    vectors = {
        name: channel_vector(x, torch.as_tensor(value, dtype=torch.float64)).float()
        for name, value in (("scale", scale), ("shift", shift))
        if value is not None
    }
    return x.on(b.emit(Elementwise, (source,), source.shape, activation=activation, **vectors))


def pointwise(b: Builder, x: View, call: Callable[..., torch.Tensor], *arguments: Any) -> View:
    """Compute call(x, *arguments), a function of single values that has no operator of its own."""
    x = commuting(b, x)
    source = View.of(x.source)
    all_arguments = (TensorRef(source.source.name), *arguments)
    return x.on(b.emit(Pointwise, (source,), source.shape, call=call, arguments=all_arguments))


def combine(b: Builder, x: View, y: View, how: Combine) -> View:
    """Combine two views, broadcast as in torch.

    Raises:
        NotLocal: there is no order of dimensions in which both are maps or volumes.
    """
    if x.moves_like(y) and all(b.is_float_map(v) and v.numel >= torch.Size(v.source.shape).numel() for v in (x, y)):
        sources = View.of(x.source), View.of(y.source)
        return x.on(b.emit(Elementwise, sources, x.source.shape, combine=how))
    shape = tuple(torch.broadcast_shapes(x.shape, y.shape))
    x, y = (v.reshaped((1,) * (len(shape) - len(v.shape)) + v.shape) for v in (x, y))
    for operand in (_operand, _completed_operand):
        try:
            return _combined_as_maps(b, x, y, shape, how, operand)
        except NotLocal:
            if len(shape) != 5:
                continue
        one, other = (v.expanded(shape).as_image() for v in (x, y))
        try:
            return _combined_as_maps(b, one, other, one.shape, how, operand).reshaped(shape)
        except NotLocal:
            continue
    raise NotLocal


def _combined_as_maps(b: Builder, x: View, y: View, shape: Shape, how: Combine, operand: Operand) -> View:
    """Combine two views, which broadcast to ``shape``, as maps of the first layout that both can have.

    Raises:
        NotLocal: there is none.
    """
    for layout in _layouts(x.expanded(shape)):
        try:
            return layout.from_map(_combined(b, layout, operand(b, layout, x, y), operand(b, layout, y, x), how))
        except NotLocal:
            continue
    raise NotLocal


def channel_vector(x: View, constant: torch.Tensor) -> torch.Tensor:
    """Return the constant that goes with each channel of the view's source: [channels].

    Args:
        constant: tensor that broadcasts to the view.

    Raises:
        NotLocal: the constant differs from pixel to pixel.
    """
    channels = x.source.channels
    if constant.numel() == 1:
        return constant.reshape(1).expand(channels).clone()
    spread = constant.expand(x.shape)
    if x.is_whole and all(size == 1 for size in constant.shape[::-1][: len(x.shape) - 2]):
        return spread[0, :, 0, 0].clone() if len(x.shape) == 4 else spread[0].clone()
    index = x.index()
    table = torch.full((torch.Size(x.source.shape).numel(),), torch.nan, dtype=constant.dtype)
    table[index.flatten()] = spread.flatten()
    low, high = (torch.where(table.isnan(), limit, table).view(channels, -1) for limit in (torch.inf, -torch.inf))
    vector = low.amin(1)
    unread = vector > high.amax(1)
    if not torch.equal(table[index], spread) or not bool((unread | (vector == high.amax(1))).all()):
        raise NotLocal
    return torch.where(unread, 0.0, vector)


def _broadcast(x: View, *constants: Constant | None) -> View:
    shapes = [c.shape for c in constants if isinstance(c, torch.Tensor)]
    return x.expanded(tuple(torch.broadcast_shapes(x.shape, *shapes)))


def _layouts(x: View) -> Iterator[Layout]:
    """Return layouts by the dimensions that may be the channels: as torch orders them, then the last."""
    dims = (1, len(x.shape) - 1) if len(x.shape) > 1 else ()
    return (Layout.of(x, dim) for dim in dict.fromkeys(dims))


def _operand(b: Builder, layout: Layout, x: View, _: View) -> View:
    """Return an operand as a map with the layout's channels, and with all its pixels or with one."""
    channels = layout.shape[layout.dim]
    if x.numel == x.shape[layout.dim]:
        pixel = b.feature_map(x.reshaped((1, x.numel, 1, 1)))
        return b.select(pixel, [0] * channels) if x.numel != channels else pixel
    x = layout.to_map(x.expanded(layout.shape))
    if x.source.pixels == 1 and b.is_float_map(x):
        index = x.index().view(channels, -1)
        if torch.equal(index, index[:, :1].expand_as(index)):  # a vector that was expanded
            return b.select(View.of(x.source), index[:, 0].tolist())
    return b.feature_map(x)


def _completed_operand(b: Builder, layout: Layout, x: View, other: View) -> View:
    """Return an operand as a map, by a global operator where local ones cannot make it.

    Raises NotLocal where it is a map already that a global operator made.
    """
    try:
        operand = _operand(b, layout, x, other)
    except NotLocal:
        return b.image(layout.to_map(x.expanded(layout.shape)))
    if not b.is_made_locally(operand):
        raise NotLocal
    return operand


def _combined(b: Builder, layout: Layout, x: View, y: View, how: Combine) -> View:
    shape: Shape = layout.map_shape(layout.shape[layout.dim])
    if x.source.size == y.source.size or y.source.pixels == 1:
        return b.emit(Elementwise, (_filling(b, x, shape), y), shape, combine=how)
    if how in _SWAPPED:
        return b.emit(Elementwise, (_filling(b, y, shape), x), shape, combine=how)
    if how is Combine.SUB:
        minus = torch.full((shape[1],), -1.0)
        return b.emit(Elementwise, (_filling(b, y, shape), x), shape, combine=how, scale=minus)
    return b.emit(Elementwise, (_filling(b, x, shape), y), shape, combine=how)


def _filling(b: Builder, x: View, shape: Shape) -> View:
    """Return a map of one pixel as a map of that shape; any other as it is."""
    size = (shape[2], shape[3]) if len(shape) == 4 else (1, 1)
    if x.source.size == size:
        return x
    rows, columns = (taps_at(torch.zeros(n, dtype=torch.int64), 1) for n in size)
    return b.emit(Resample, (x,), shape, rows=rows, columns=columns)
