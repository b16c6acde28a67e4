# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for volumes [1, channels, depth, height, width], with the arguments of each operator's schema, in its order.

A volume is a map whose channels are those of all its slices. Each slice of a convolution's output is a convolution, in
two dimensions, of a few slices of the input; together they are the groups of one convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch

from cacheinf_ros.graph.ir import Combine, Resample
from cacheinf_ros.graph.lowering import channelwise
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.convolution import conv2d, conv_transpose2d
from cacheinf_ros.graph.lowering.elementwise import combine
from cacheinf_ros.graph.lowering.pooling import avg_pool2d, max_pool2d
from cacheinf_ros.graph.lowering.resizing import pad, resized_axis
from cacheinf_ros.graph.lowering.view import View
from cacheinf_ros.graph.make_taps import taps_at
from cacheinf_ros.graph.taps import OUTSIDE

aten = torch.ops.aten

_OUTSIDE = -1  # the number of a slice that is padding
_SWAPPED = [0, 2, 1, 3, 4]  # the order of dimensions in which the depth comes before the channels, and back


def conv3d(b: Builder, x: View, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> View:
    """Lower aten.conv3d; padding may be 'same' or 'valid'."""
    (step, *stride), (dilated, *dilation) = _triple(stride), _triple(dilation)
    taps = weight.shape[2]
    before, padding_2d = dilated * (taps - 1) // 2 if padding == "same" else 0, padding
    if not isinstance(padding, str):
        before, *padding_2d = _triple(padding)
    slices = _windows(x, b.shape[2], taps, step, before, dilated)
    kernels = weight[None].repeat(len(slices), *(1,) * weight.dim())  # [depth, out, in / groups, taps, ...]
    kernels *= (slices != _OUTSIDE)[:, None, None, :, None, None]
    read = _gathered(b, x, slices, groups)
    bias = None if bias is None else bias.repeat(len(slices))
    kernel = kernels.flatten(2, 3).flatten(0, 1)
    return _by_depth(conv2d(b, read, kernel, bias, stride, padding_2d, dilation, groups * len(slices)), len(slices))


def conv_transpose3d(
    b: Builder, x: View, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> View:  # fmt: skip
    """Lower aten.conv_transpose3d: slice i adds weight k to slice i * stride + k * dilation - padding of the output."""
    (step, *stride), (before, *padding), (dilated, *dilation) = map(_triple, (stride, padding, dilation))
    _check(x)
    depth, taps = b.shape[2], weight.shape[2]
    at = torch.arange(depth)[:, None] + before - dilated * torch.arange(taps)  # [depth, taps], in steps of the output
    slices = at.div(step, rounding_mode="floor")
    slices[(at % step != 0) | (slices < 0) | (slices >= x.shape[2])] = _OUTSIDE
    used = (slices == _OUTSIDE).to(torch.uint8).argsort(dim=1, stable=True)  # those that are padding last
    used = used[:, : max(1, int((slices != _OUTSIDE).sum(1).max()))]  # most slices have fewer taps than the kernel
    slices = slices.gather(1, used)
    kernels = weight.unflatten(0, (groups, -1))[:, :, :, used]  # [groups, in / groups, out / groups, depth, taps, ...]
    kernels = kernels * (slices != _OUTSIDE)[..., None, None]
    kernel = kernels.permute(3, 0, 1, 4, 2, 5, 6).flatten(0, 3)
    bias = None if bias is None else bias.repeat(depth)
    read, extra = _gathered(b, x, slices, groups), _triple(output_padding)[1:]
    result = conv_transpose2d(b, read, kernel, bias, stride, padding, extra, groups * depth, dilation)
    return _by_depth(result, depth)


def max_pool3d(
    b: Builder, x: View, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> View:
    """Lower aten.max_pool3d, and the first result of the form with indices: first within slices, then across them."""
    (taps, *kernel), (step, *stride) = _triple(kernel), _triple(stride or kernel)
    (before, *padding), (dilated, *dilation) = _triple(padding), _triple(dilation)
    slices = _windows(x, b.shape[2], taps, step, before, dilated)
    if bool((slices == _OUTSIDE).all(1).any()):
        raise NotLocal
    slices = _inside(slices)  # a maximum may count one twice
    pooled = _volume(max_pool2d(b, _image(x), kernel, stride, padding, dilation, ceil_mode), x.shape[2])
    terms = [_picked(b, pooled, slices[:, tap]) for tap in range(taps)]
    return _volume(reduce(lambda one, other: combine(b, one, other, Combine.MAXIMUM), terms), b.shape[2])


def avg_pool3d(
    b: Builder, x: View, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_padding: bool = True, divisor: int | None = None,
) -> View:  # fmt: skip
    """Lower aten.avg_pool3d: first within slices, then across them."""
    if divisor is not None:
        raise NotLocal
    (taps, *kernel), (step, *stride), (before, *padding) = _triple(kernel), _triple(stride or kernel), _triple(padding)
    pooled = _volume(avg_pool2d(b, _image(x), kernel, stride, padding, ceil_mode, count_padding), x.shape[2])
    slices = _windows(x, b.shape[2], taps, step, before, 1)
    starts = torch.arange(b.shape[2])[:, None] * step - before + torch.arange(taps)
    counted = starts < x.shape[2] + before if count_padding else slices != _OUTSIDE
    weights = (slices != _OUTSIDE) / counted.sum(1, keepdim=True)
    return _mixed(b, pooled, slices, weights)


def resize(call_2d: Callable[..., torch.Tensor], call: Callable[..., torch.Tensor], *, by_axis: bool) -> Any:
    """Return the rule for a function that resizes volumes.

    Args:
        call_2d: what it does to each slice, in the form (image, size, [align_corners,] factor_y, factor_x).
        call: the function, in that form with a factor of the depth before the others.
        by_axis: whether the rule is for that form itself, otherwise for the one that takes all factors as a list.
    """

    def rule(b: Builder, x: View, size: Any, *options: Any) -> View:
        corners = options[: -3 if by_axis else -1]
        factors = options[-3:] if by_axis else options[-1] or (None, None, None)
        image, (depth, *sizes) = b.image(_image(x)), b.shape[2:]
        axes = zip(image.source.size, sizes, factors[1:], strict=True)
        rows, columns = (resized_axis(call_2d, corners, *axis) for axis in axes)
        resized = b.emit(Resample, (image,), (*image.shape[:2], *sizes), rows=rows, columns=columns)
        each = torch.eye(x.shape[2])[None, :, :, None, None]
        weights = call(each, [depth, 1, 1], *corners, factors[0], None, None)[0, :, :, 0, 0].t()  # [depth, slices]
        taps = int((weights != 0).sum(1).max())
        slices = weights.abs().topk(taps).indices
        used = weights.gather(1, slices)
        slices = torch.where(used == 0, slices[:, :1], slices)  # no slice that torch would not read
        return _mixed(b, _volume(resized, x.shape[2]), slices, used)

    return rule


def pad_volume(b: Builder, x: View, amounts: Sequence[int], mode: str = "constant", value: float | None = None) -> View:
    """Lower aten.pad and aten.constant_pad_nd of depth by a constant, and of height and width in any mode.

    Negative amounts crop.
    """
    before, after, *others = (*amounts, *(0,) * 6)[4:]
    _check(x)
    if any(others) or (mode != "constant" and (before or after)):
        raise NotLocal
    x = x.then(aten.slice.Tensor, 2, max(0, -before), x.shape[2] - max(0, -after))
    deep = b.image(_image(x.permuted(_SWAPPED)))
    before, after = max(0, before), max(0, after)
    blank = [_blank(b, deep, x.shape[1] * slices, float(value or 0.0)) for slices in (before, after) if slices]
    if blank:
        deep = channelwise.concat(b, [*blank[: bool(before)], deep, *blank[bool(before) :]], 1)
    return _by_depth(b.image(pad(b, deep, amounts[:4], mode, value)), before + x.shape[2] + after)


def constant_pad(b: Builder, x: View, amounts: Sequence[int], value: float = 0) -> View:
    """Lower aten.constant_pad_nd."""
    return pad_volume(b, x, amounts, "constant", value)


def concat(b: Builder, parts: Sequence[Any], dim: int = 0) -> View:
    """Lower aten.cat along channels or depth."""
    if not all(isinstance(part, View) and len(part.shape) == 5 for part in parts) or dim % 5 not in (1, 2):
        raise NotLocal
    order = [0, 1, 2, 3, 4] if dim % 5 == 1 else _SWAPPED
    whole = channelwise.concat(b, [_image(part.permuted(order)) for part in parts], 1)
    return _volume(whole, b.shape[order[2]]).permuted(order)


def _triple(value: int | Sequence[int]) -> tuple[int, int, int]:
    numbers = [value] if isinstance(value, int) else [int(n) for n in value]
    depth, height, width = numbers * 3 if len(numbers) == 1 else numbers
    return depth, height, width


def _image(x: View) -> View:
    """View a volume as a map; raises :class:`NotLocal` where it is none, or of several images."""
    _check(x)
    return x.as_image()


def _check(x: View) -> None:
    if len(x.shape) != 5 or x.shape[0] != 1:
        raise NotLocal


def _volume(image: View, depth: int) -> View:
    """View such a map as the volume."""
    return image.reshaped((1, image.shape[1] // depth, depth, *image.shape[2:]))


def _by_depth(image: View, depth: int) -> View:
    """View a map, whose channels are those of the first slice, then those of the second and so on, as the volume."""
    return _volume(image, image.shape[1] // depth).permuted(_SWAPPED)


def _windows(x: View, depth: int, taps: int, step: int, before: int, dilated: int) -> torch.Tensor:
    """Return which slices each of ``depth`` windows covers: int64 [depth, taps].

    Raises:
        NotLocal: it is no volume.
    """
    _check(x)
    slices = torch.arange(depth)[:, None] * step - before + torch.arange(taps) * dilated
    slices[(slices < 0) | (slices >= x.shape[2])] = _OUTSIDE
    return slices


def _inside(slices: torch.Tensor) -> torch.Tensor:
    """Replace what is padding by the last slice of the same window, or by the first of all where it has none."""
    return torch.where(slices == _OUTSIDE, slices.amax(1, keepdim=True).clamp(min=0), slices)


def _gathered(b: Builder, x: View, slices: torch.Tensor, groups: int) -> View:
    """Return the slices [depth, taps] as a map whose channels are ordered by depth, group, channel and tap.

    What stands for padding is another slice, of the same window if there is one, whose weights must be 0: only where a
    value of it is infinite or no number is the result NaN although torch's may be another.
    """
    channels = torch.arange(x.shape[1]).view(1, groups, -1, 1)
    index = channels * x.shape[2] + _inside(slices)[:, None, None, :]
    return b.select(b.image(_image(x)), index.flatten().tolist())


def _picked(b: Builder, x: View, slices: torch.Tensor) -> View:
    """Return one slice of a volume for each number, as a map [1, channels * slices, height, width]."""
    index = torch.arange(x.shape[1])[:, None] * x.shape[2] + slices
    return b.select(b.image(_image(x)), index.flatten().tolist())


def _blank(b: Builder, like: View, channels: int, value: float) -> View:
    """Return a map of one value, as large as another."""
    some, size = b.select(like, [0] * channels), like.source.size
    rows, columns = (taps_at(torch.full((pixels,), OUTSIDE), pixels) for pixels in size)
    return b.emit(Resample, (some,), (1, channels, *size), rows=rows, columns=columns, fill=value)


def _mixed(b: Builder, x: View, slices: torch.Tensor, weights: torch.Tensor) -> View:
    """Return a volume whose slices are weighted sums of those of another.

    Args:
        slices, weights: [depth, taps].
    """
    if slices.shape[1] == 1 and bool((weights == 1).all()):
        return _volume(_picked(b, x, slices[:, 0]), len(slices))
    channels = x.shape[1]
    kernel = weights.float().repeat_interleave(channels, 0)[:, :, None, None]
    mixed = conv2d(b, _gathered(b, x, slices, channels), kernel, None, 1, 0, 1, channels * len(slices))
    return _by_depth(mixed, len(slices))
