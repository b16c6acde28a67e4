# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Translate the ONNX operators Resize and Upsample to torch calls, as in :mod:`onnx_operators`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from cacheinf_ros.errors import ModelError

Tensor = torch.Tensor

_CENTRED = (b"half_pixel", b"pytorch_half_pixel")
_NAMES = {(b"linear", 2): "bilinear", (b"cubic", 2): "bicubic", (b"linear", 3): "trilinear"}
_ROUNDED: dict[bytes, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    b"floor": np.floor,
    b"ceil": np.ceil,
    b"round_prefer_floor": lambda places: np.ceil(places - np.float32(0.5)),
    b"round_prefer_ceil": lambda places: np.floor(places + np.float32(0.5)),
}
_CUBIC_COEFFICIENT = -0.75  # torch's


def resize(
    x: Tensor,
    roi: Any = None,
    scales: NDArray[Any] | None = None,
    sizes: NDArray[Any] | None = None,
    *,
    mode: bytes = b"nearest",
    coordinate_transformation_mode: bytes = b"half_pixel",
    nearest_mode: bytes = b"round_prefer_floor",
    axes: list[int] | None = None,
    extrapolation_value: float = 0.0,
    **others: Any,
) -> Tensor:
    """Compute Resize of images or volumes; raises :class:`ModelError` for what torch does not have.

    Where scales are given, ONNX maps pixels by these and not by the ratio of the sizes, which are rounded down.
    """
    if scales is None and sizes is None:  # version 10, whose second input are the scales
        return upsample(x, roi, mode=mode)
    places = [axis % x.dim() for axis in axes or range(x.dim())]
    if sizes is not None and len(sizes):
        wanted = dict(zip(places, map(int, sizes), strict=True))
        size = [wanted.get(axis, x.shape[axis]) for axis in range(x.dim())]
        factors = [np.float32(after / before) for before, after in zip(x.shape, size, strict=True)]
    else:
        given = dict(zip(places, np.asarray(scales, np.float32), strict=True))
        factors = [given.get(axis, np.float32(1)) for axis in range(x.dim())]
        size = [int(before * factor) for before, factor in zip(x.shape, factors, strict=True)]
    if x.dim() not in (4, 5) or size[:2] != list(x.shape[:2]):
        raise ModelError(
            f"the ONNX operator Resize from {list(x.shape)} to {size} is not supported: only of images and volumes"
        )
    if others.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        raise ModelError("the ONNX operator Resize is supported only with the keep_aspect_ratio_policy stretch")
    if mode == b"nearest":
        return _nearest(x, size[2:], factors[2:], coordinate_transformation_mode, nearest_mode)
    ratios = [np.float32(after / before) for before, after in zip(x.shape[2:], size[2:], strict=True)]
    _refuse_what_torch_lacks(mode, is_smaller=bool(min(ratios) < 1), **others)
    corners = coordinate_transformation_mode == b"align_corners"
    is_one = coordinate_transformation_mode == b"pytorch_half_pixel" and 1 in size[2:]  # its place is the corner
    name = _NAMES.get((mode, x.dim() - 2))
    if name is None or not (corners or coordinate_transformation_mode in _CENTRED) or is_one:
        how = f"{_text(mode)}, {_text(coordinate_transformation_mode)}"
        raise ModelError(f"the ONNX operator Resize with mode {how} is not supported")
    if corners or ratios == factors[2:]:
        return functional.interpolate(x, tuple(size[2:]), mode=name, align_corners=corners)
    scale = tuple(map(float, factors[2:]))
    result = functional.interpolate(x, scale_factor=scale, mode=name, align_corners=False, recompute_scale_factor=False)
    # the product of a size and a scale may be rounded differently, and torch copies a side that keeps its length
    if list(result.shape) != size or any(ratio == 1 != factor for ratio, factor in zip(ratios, scale, strict=True)):
        raise ModelError(f"the ONNX operator Resize from {list(x.shape)} by {scale} is not supported: give it sizes")
    return result


def _refuse_what_torch_lacks(
    mode: bytes,
    *,
    is_smaller: bool,
    antialias: int = 0,
    cubic_coeff_a: float = _CUBIC_COEFFICIENT,
    exclude_outside: int = 0,
    **_: Any,
) -> None:
    lacking = {
        f"cubic_coeff_a {cubic_coeff_a:g}": mode == b"cubic" and abs(cubic_coeff_a - _CUBIC_COEFFICIENT) > 1e-6,
        "exclude_outside": mode == b"cubic" and bool(exclude_outside),
        "antialias": is_smaller and bool(antialias),
    }
    for name, is_asked in lacking.items():
        if is_asked:
            raise ModelError(f"the ONNX operator Resize with mode {_text(mode)} and {name} is not supported")


def upsample(x: Tensor, given: NDArray[Any] | None = None, *, scales: Any = None, mode: bytes = b"nearest") -> Tensor:
    """Compute Upsample, which Resize replaced; raises :class:`ModelError` where it makes an image smaller."""
    factors = np.asarray(scales if given is None else given, np.float32)
    if (factors < 1).any():
        raise ModelError(f"the ONNX operator Upsample by {factors.tolist()} is not supported: export for opset 11")
    return resize(x, None, factors, mode=mode, coordinate_transformation_mode=b"asymmetric", nearest_mode=b"floor")


def _nearest(x: Tensor, size: list[int], factors: list[np.float32], transformation: bytes, rounding: bytes) -> Tensor:
    chosen = [
        _nearest_pixels(before, after, factor, transformation, rounding)
        for before, after, factor in zip(x.shape[2:], size, factors, strict=True)
    ]
    if all(_are_torchs(pixels, before) for pixels, before in zip(chosen, x.shape[2:], strict=True)):
        return functional.interpolate(x, tuple(size), mode="nearest")
    for dim, pixels in enumerate(chosen, 2):
        if not np.array_equal(pixels, np.arange(x.shape[dim])):
            x = torch.index_select(x, dim, torch.from_numpy(pixels))
    return x


def _are_torchs(pixels: NDArray[np.int64], before: int) -> bool:
    """Tell whether torch copies the same pixels; only of whole ratios is it known how it rounds."""
    after = len(pixels)
    is_whole = after % before == 0 or before % after == 0
    return is_whole and np.array_equal(pixels, np.arange(after) * before // after)


def _nearest_pixels(
    before: int, after: int, factor: np.float32, transformation: bytes, rounding: bytes
) -> NDArray[np.int64]:
    """Return the pixel of the input that each pixel of the output along an axis is copied from, as in ONNX' table."""
    pixels, half = np.arange(after, dtype=np.float32), np.float32(0.5)
    match transformation:
        case b"half_pixel" | b"pytorch_half_pixel":
            alone = transformation == b"pytorch_half_pixel" and after == 1
            places = pixels if alone else (pixels + half) / factor - half
        case b"asymmetric":
            places = pixels / factor
        case b"align_corners":
            places = pixels * np.float32(before - 1) / np.float32(max(after - 1, 1))
        case b"tf_half_pixel_for_nn":
            places = (pixels + half) / factor
        case _:
            raise ModelError(f"the ONNX operator Resize with mode nearest, {_text(transformation)} is not supported")
    if rounding not in _ROUNDED:
        raise ModelError(f"the ONNX operator Resize with nearest_mode {_text(rounding)} is not supported")
    return np.clip(_ROUNDED[rounding](places), 0, before - 1).astype(np.int64)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
