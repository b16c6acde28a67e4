"""Sliding windows: which outputs depend on which inputs (receptive fields)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that slides over an image; every pair is (y, x).

    Attributes:
        padding: pixels before the first; how many follow the last one results from ``out_size``.
    """

    in_size: Pair
    out_size: Pair
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pair = (0, 0)

    @property
    def is_pointwise(self) -> bool:
        """Whether output pixel i depends on input pixel i alone."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)


def reusable_interval(
    first: NDArray[np.int64], length: NDArray[np.int64], window: Window, axis: int, *, padding_is_reusable: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The outputs whose whole receptive field is reusable, along one axis (DeepCache Table 2).

    The paper's w' = floor((w - k) / s) differs by one from its worked example: kernel 11, stride 2,
    padding 5 turns (100, 100, 100, 40) into (53, 53, 45, 15). The example is right, and this is exact.

    Args:
        first, length: int64 [n], reusable inputs: pixels first .. first + length - 1.
        axis: 0 for y, 1 for x.
        padding_is_reusable: whether the padding beside a reusable border pixel counts as reusable: so it is
            as long as nothing moves.

    Returns:
        (first, length) of the reusable outputs, int64 [n]; the length is 0 where there are none.
    """
    size, out_size = window.in_size[axis], window.out_size[axis]
    stride, padding = window.stride[axis], window.padding[axis]
    reach = window.dilation[axis] * (window.kernel[axis] - 1)
    last = first + length - 1
    out_first = -(-(first + padding) // stride)
    out_last = (last + padding - reach) // stride
    if padding_is_reusable:
        out_first = np.where(first <= 0, 0, out_first)
        out_last = np.where(last >= size - 1, out_size - 1, out_last)
    out_first = np.maximum(out_first, 0)
    out_last = np.minimum(out_last, out_size - 1)
    return out_first, np.where(length > 0, np.maximum(out_last - out_first + 1, 0), 0)


def reusable_rectangles(
    rectangles: NDArray[np.int64], window: Window, *, padding_is_reusable: bool
) -> NDArray[np.int64]:
    """Reusable rectangles of the input -> of the output of a window, row by row.

    Args:
        rectangles: int64 [n, 4], (x, y, width, height).
    """
    x, width = reusable_interval(rectangles[:, 0], rectangles[:, 2], window, 1, padding_is_reusable=padding_is_reusable)
    y, height = reusable_interval(
        rectangles[:, 1], rectangles[:, 3], window, 0, padding_is_reusable=padding_is_reusable
    )
    return np.stack([x, y, width, height], axis=1)
