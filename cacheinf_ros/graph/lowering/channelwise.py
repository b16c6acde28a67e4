# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for functions of the channels of each pixel, whichever dimension has them: linear layers, norms, softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from cacheinf_ros.graph.ir import ChannelNorm, ChannelSoftmax, Concat, Operator, Pointwise, TensorRef
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal, first_local
from cacheinf_ros.graph.lowering.convolution import emit_conv
from cacheinf_ros.graph.lowering.elementwise import affine
from cacheinf_ros.graph.lowering.view import Layout, Shape, View
from cacheinf_ros.graph.window import Window

aten = torch.ops.aten


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """A tensor read as the pixels of a map, each with all its channels, for functions of the channels of one pixel.

    Attributes:
        source: the map.
        layout: how the tensor is a map.
        order: int64, index of each pixel of the tensor among the source's; None: both are in the same order.
    """

    source: View
    layout: Layout
    order: torch.Tensor | None = None

    @classmethod
    def of(cls, b: Builder, x: View, dim: int) -> Pixels:
        """Read a tensor whose channels are one dimension.

        Raises:
            NotLocal: they are not the channels of a map.
        """
        layout = Layout.of(x, dim)
        try:
            return cls(source=b.feature_map(layout.to_map(x)), layout=layout)
        except NotLocal:
            return first_local(
                lambda: cls._in_any_order(b, x, layout), lambda: cls._in_any_order(b, b.begun(x), layout)
            )

    @classmethod
    def _in_any_order(cls, b: Builder, x: View, layout: Layout) -> Pixels:
        """Read a tensor whose pixels are in any order, such as transposed images, or windows one after the other."""
        if not b.is_float_map(x):
            raise NotLocal
        if len(x.shape) < 2:
            raise NotLocal
        index = x.index().movedim(layout.dim, 0).flatten(1)  # [channels, pixels]
        pixels = x.source.pixels
        channels, order = index[:, 0] // pixels, index[0] % pixels
        if not torch.equal(channels[:, None] * pixels + order, index) or 2 * len(order) < pixels:
            raise NotLocal
        source = b.select(View.of(x.source), channels.tolist())
        return cls(source=source, layout=replace(layout, size=x.source.size), order=order)

    def shape(self, channels: int) -> Shape:
        """Return the shape of a function's result with this number of channels."""
        return self.layout.map_shape(channels) if self.order is None else (1, channels, *self.source.source.size)

    def result(self, view: View) -> View:
        """Return the function's result, viewed as the tensor was."""
        if self.order is None:
            return self.layout.from_map(view)
        pixels = view.reshaped((1, view.shape[1], self.source.source.pixels))
        return self.layout.from_map(pixels.then(aten.index_select.default, 2, self.order))


def linear(b: Builder, x: View, weight: torch.Tensor, bias: Any) -> View:
    """Lower aten.linear to a 1x1 convolution over the last dimension.

    For a flattened map it is a convolution with a window of the whole map.
    """
    if weight.dim() != 2:
        raise NotLocal
    try:
        return _mixed(b, x, -1, weight, bias)
    except NotLocal:
        if x.numel != x.shape[-1] or not b.is_float_map(x):
            raise
    return _of_whole_map(b, x, weight, bias)


def matmul(b: Builder, x: View, y: torch.Tensor) -> View:
    """Lower aten.mm and aten.matmul with a constant on the right, which must be a matrix."""
    if y.dim() != 2:
        raise NotLocal
    return linear(b, x, y.t(), None)


def addmm(b: Builder, bias: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> View:
    """Lower aten.addmm with a constant matrix and a constant for each column."""
    if not isinstance(x, View) or not isinstance(y, torch.Tensor) or not isinstance(bias, torch.Tensor):
        raise NotLocal
    if (beta, alpha) != (1, 1) or bias.numel() != y.shape[1]:
        raise NotLocal
    return linear(b, x, y.t(), bias.flatten())


def batch_norm(b: Builder, x: View, weight: Any, bias: Any, mean: Any, variance: Any, epsilon: float) -> View:
    """Normalise the second dimension by the statistics that were trained."""
    scale = torch.rsqrt(variance.double() + epsilon)
    scale = scale if weight is None else scale * weight.double()
    shift = -mean.double() * scale
    shift = shift if bias is None else shift + bias.double()
    scale, shift = (value.view(-1, *(1,) * (len(x.shape) - 2)) for value in (scale, shift))
    return affine(b, x, scale=scale, shift=shift)


def native_batch_norm(
    b: Builder, x: View, weight: Any, bias: Any, mean: Any, variance: Any, _: float, epsilon: float
) -> View:
    """Lower the first result of aten._native_batch_norm_legit_no_training."""
    return batch_norm(b, x, weight, bias, mean, variance, epsilon)


def norm_by_statistics(
    b: Builder, x: View, weight: Any, bias: Any, mean: Any, variance: Any, own: bool, _: float, epsilon: float, *__: Any
) -> View:
    """Lower aten.batch_norm and aten.instance_norm, unless they use the statistics of the image itself."""
    if own:
        raise NotLocal
    return batch_norm(b, x, weight, bias, mean, variance, epsilon)


def layer_norm(b: Builder, x: View, shape: Sequence[int], weight: Any, bias: Any, epsilon: float, *_: Any) -> View:
    """Lower aten.layer_norm over the last dimension."""
    if len(shape) != 1:
        raise NotLocal
    channels = int(shape[0])
    fields = {
        "weight": torch.ones(channels) if weight is None else weight.float(),
        "bias": torch.zeros(channels) if bias is None else bias.float(),
        "epsilon": epsilon,
    }
    return _each_pixel(b, x, -1, ChannelNorm, fields)


def rms_norm(b: Builder, x: View, shape: Sequence[int], weight: Any, epsilon: float | None) -> View:
    """Lower aten.rms_norm over the last dimension."""
    if len(shape) != 1:
        raise NotLocal
    call = partial(_rms_norm, weight=weight, epsilon=epsilon)
    return _called(b, Pixels.of(b, x, -1), call, x.shape[-1])


def softmax(log: bool) -> Callable[..., View]:
    """Return the rule for aten.softmax or aten.log_softmax over any dimension that has the channels."""

    def rule(b: Builder, x: View, dim: int, *_: Any) -> View:
        return _each_pixel(b, x, dim, ChannelSoftmax, {"log": log})

    return rule


def concat(b: Builder, parts: Sequence[Any], dim: int) -> View:
    """Lower aten.cat along the dimension that has the channels."""
    if not all(isinstance(part, View) for part in parts):
        raise NotLocal
    layouts = [Layout.of(part, dim) for part in parts]
    if len({(layout.size, layout.is_plain) for layout in layouts}) != 1:
        raise NotLocal
    maps = [b.feature_map(layout.to_map(part)) for layout, part in zip(layouts, parts, strict=True)]
    channels = sum(part.source.channels for part in maps)
    return layouts[0].from_map(b.emit(Concat, maps, layouts[0].map_shape(channels)))


def stack(b: Builder, parts: Sequence[Any], dim: int) -> View:
    """Lower aten.stack of maps: they are concatenated, and viewed with one more dimension."""
    if not all(isinstance(part, View) for part in parts) or dim % (len(parts[0].shape) + 1) == 0:
        raise NotLocal
    maps = [b.feature_map(part) for part in parts]
    shape = parts[0].shape
    whole = b.emit(Concat, maps, (1, len(parts) * shape[1], *shape[2:]))
    return whole.reshaped((1, len(parts), *shape[1:])).then(aten.movedim.int, 1, dim)


def reduce_channels(b: Builder, x: View, dim: int, call: Callable[..., torch.Tensor]) -> View:
    """Apply a function of the channels that gives one: called with the tensor, ``dim`` and ``keepdim``."""
    return _called(b, Pixels.of(b, x, dim), partial(call, dim=1, keepdim=True), 1)


def mix_channels(b: Builder, x: View, dim: int, weights: torch.Tensor) -> View:
    """Compute a weighted sum of the channels, with weights [channels]."""
    return _mixed(b, x, dim, weights[None], None)


def pad_channels(b: Builder, x: View, before: int, after: int, value: float) -> View:
    """Add constant channels before and after those of [..., channels, height, width]."""
    weight = functional.pad(torch.eye(x.shape[-3]), (0, 0, before, after))
    bias = functional.pad(torch.zeros(x.shape[-3]), (before, after), value=value)
    return _mixed(b, x, len(x.shape) - 3, weight, bias)


def mean_of_neighbours(
    b: Builder, x: View, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_padding: bool = True, divisor: int | None = None,
) -> View:  # fmt: skip
    """Lower aten.avg_pool3d over neighbouring channels of each pixel: local response norm divides by it.

    In that norm, a pixel depends on no other one: nothing of a reusable region is lost (DeepCache's table 2 shrinks it
    by the radius, as normalisation within a channel would; that is an average pooling here).
    """
    depth, *pixels = kernel
    steps = torch.as_tensor(stride or kernel)
    if pixels != [1, 1] or (steps != 1).any() or torch.as_tensor(padding).any() or divisor is not None:
        raise NotLocal
    windows = torch.eye(x.shape[-3]).unfold(0, depth, 1).sum(-1)  # [windows, channels]
    return _mixed(b, x, len(x.shape) - 3, windows / depth, None)


def _mixed(b: Builder, x: View, dim: int, weight: torch.Tensor, bias: Any) -> View:
    pixels = Pixels.of(b, x, dim)
    size = pixels.source.source.size
    window = Window(in_size=size, out_size=size, kernel=(1, 1))
    shape = pixels.shape(len(weight))
    return pixels.result(emit_conv(b, pixels.source, weight[:, :, None, None], bias, window, shape=shape))


def _of_whole_map(b: Builder, x: View, weight: torch.Tensor, bias: Any) -> View:
    """Convolve with the weights in the order of the map's elements, whatever the order of the flattened ones."""
    spec = x.source
    elements = torch.zeros(len(weight), spec.channels * spec.pixels, dtype=weight.dtype)
    elements.index_add_(1, x.index().flatten(), weight)
    kernel = elements.view(len(weight), spec.channels, *spec.size)
    window = Window(in_size=spec.size, out_size=(1, 1), kernel=spec.size)
    layout = Layout(shape=x.shape, dim=len(x.shape) - 1, size=(1, 1))
    return layout.from_map(emit_conv(b, View.of(spec), kernel, bias, window, shape=layout.map_shape(len(weight))))


def _each_pixel(b: Builder, x: View, dim: int, kind: type[Operator], fields: dict[str, Any]) -> View:
    pixels = Pixels.of(b, x, dim)
    return pixels.result(b.emit(kind, (pixels.source,), pixels.shape(x.shape[dim]), **fields))


def _called(b: Builder, pixels: Pixels, call: Callable[..., torch.Tensor], channels: int) -> View:
    arguments = (TensorRef(pixels.source.source.name),)
    return pixels.result(b.emit(Pointwise, (pixels.source,), pixels.shape(channels), call=call, arguments=arguments))


def _rms_norm(x: torch.Tensor, *, weight: torch.Tensor | None, epsilon: float | None) -> torch.Tensor:
    return functional.rms_norm(x.movedim(1, -1), (x.shape[1],), weight, epsilon).movedim(-1, 1)
