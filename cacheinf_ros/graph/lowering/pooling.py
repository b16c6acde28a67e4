# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for pooling, with the arguments of each operator's schema, in its order."""

from __future__ import annotations

from typing import Any

from cacheinf_ros.graph.ir import GlobalMean, Pool, Resample
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.convolution import pair
from cacheinf_ros.graph.lowering.elementwise import affine
from cacheinf_ros.graph.lowering.view import View
from cacheinf_ros.graph.make_taps import averaging_taps
from cacheinf_ros.graph.window import Pair, Window


def max_pool2d(
    b: Builder, x: View, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> View:
    """Lower aten.max_pool2d, and the first result of the form with indices."""
    image = b.image(x)
    kernel = pair(kernel)
    window = _window(
        image.source.size, kernel, pair(stride) if stride else kernel, pair(padding), pair(dilation), ceil_mode
    )
    return _pool(b, image, window)


def avg_pool2d(
    b: Builder,
    x: View,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> View:
    """Lower aten.avg_pool2d; another divisor is a scale where every window lies inside the padded image."""
    image = b.image(x)
    kernel = pair(kernel)
    window = _window(image.source.size, kernel, pair(stride) if stride else kernel, pair(padding), (1, 1), ceil_mode)
    if divisor is None:
        return _pool(b, image, window, average=True, count_padding=count_padding)
    if any(_end(window, i) > window.in_size[i] + window.padding[i] for i in (0, 1)):
        raise NotLocal
    average = _pool(b, image, window, average=True, count_padding=True)
    return affine(b, average, scale=kernel[0] * kernel[1] / divisor)


def adaptive_avg_pool2d(b: Builder, x: View, size: Any) -> View:
    """Take the mean of all pixels, of windows of one size, or of windows that differ and may overlap."""
    image, size = b.image(x), pair(size)
    if size == image.source.size:
        return image.reshaped(b.shape)
    if size == (1, 1):
        return b.emit(GlobalMean, (image,), (*image.shape[:2], 1, 1))
    window = _even_window(image.source.size, size)
    if window is not None:
        return _pool(b, image, window, average=True)
    rows, columns = (averaging_taps(image.source.size[i], size[i]) for i in (0, 1))
    return b.emit(Resample, (image,), (*image.shape[:2], *size), rows=rows, columns=columns)


def adaptive_max_pool2d(b: Builder, x: View, size: Any) -> View:
    """Pool windows of one size by their maximum; only the first result is computed."""
    image = b.image(x)
    window = _even_window(image.source.size, pair(size))
    if window is None:
        raise NotLocal
    return _pool(b, image, window)


def maximum_of_all(b: Builder, image: View) -> View:
    """Compute the maximum over all pixels of a whole map."""
    window = _even_window(image.source.size, (1, 1))
    assert window is not None
    return _pool(b, image, window)


def _pool(b: Builder, image: View, window: Window, **fields: Any) -> View:
    if window.kernel == (1, 1) and window.is_pointwise:
        return image.reshaped((1, image.source.channels, *window.out_size))
    return b.emit(Pool, (image,), (1, image.source.channels, *window.out_size), window=window, **fields)


def _even_window(in_size: Pair, out_size: Pair) -> Window | None:
    """Return the window of adaptive pooling where all are alike and do not overlap; otherwise None."""
    if in_size[0] % out_size[0] or in_size[1] % out_size[1]:
        return None
    kernel = (in_size[0] // out_size[0], in_size[1] // out_size[1])
    return Window(in_size=in_size, out_size=out_size, kernel=kernel, stride=kernel)


def _window(in_size: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Window:
    sizes = [_out_size(in_size[i], kernel[i], stride[i], padding[i], dilation[i], ceil_mode) for i in (0, 1)]
    return Window(
        in_size=in_size, out_size=(sizes[0], sizes[1]), kernel=kernel, stride=stride, dilation=dilation, padding=padding
    )


def _out_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Count outputs as torch does: with ceil_mode the last window must begin inside the image or the padding before."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = -(room // -stride) + 1 if ceil_mode else room // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def _end(window: Window, axis: int) -> int:
    """Return one past the last pixel that the last window reaches."""
    return (window.out_size[axis] - 1) * window.stride[axis] - window.padding[axis] + window.kernel[axis]
