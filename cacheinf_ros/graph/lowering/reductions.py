# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rules for reductions: over channels, over all pixels, or along one axis of the image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch

from cacheinf_ros.graph.ir import GlobalMean, Resample
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal, first_local
from cacheinf_ros.graph.lowering.channelwise import mix_channels, reduce_channels
from cacheinf_ros.graph.lowering.elementwise import affine
from cacheinf_ros.graph.lowering.pooling import maximum_of_all
from cacheinf_ros.graph.lowering.view import Layout, Shape, View
from cacheinf_ros.graph.make_taps import same_taps, weighted_taps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dims:
    """The dimensions that are reduced, and those that stay."""

    reduced: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, x: View, dims: Any) -> _Dims:
        count = len(x.shape)
        given = (dims,) if isinstance(dims, int) else tuple(dims or range(count))
        reduced = {dim % count for dim in given}
        return cls(reduced=tuple(sorted(reduced)), kept=tuple(dim for dim in range(count) if dim not in reduced))

    @property
    def only(self) -> int:
        """The reduced dimension, where there is only one.

        Raises:
            NotLocal: there are several.
        """
        if len(self.reduced) != 1:
            raise NotLocal
        return self.reduced[0]

    def shape(self, x: View, keep: bool) -> Shape:
        return tuple(
            1 if dim in self.reduced else n for dim, n in enumerate(x.shape) if keep or dim not in self.reduced
        )


def mean(b: Builder, x: View, dims: Any, keep: bool = False) -> View:
    """Lower aten.mean.dim."""
    return _averaged(b, x, _Dims.of(x, dims), keep, as_sum=False)


def total(b: Builder, x: View, dims: Any, keep: bool = False) -> View:
    """Lower aten.sum.dim_IntList."""
    return _averaged(b, x, _Dims.of(x, dims), keep, as_sum=True)


def largest(b: Builder, x: View, dims: Any, keep: bool = False) -> View:
    """Lower aten.amax, and the first result of aten.max.dim."""
    chosen = _Dims.of(x, dims)
    result = first_local(
        lambda: reduce_channels(b, x, chosen.only, torch.amax),
        lambda: maximum_of_all(b, _image(b, x, chosen)),
    )
    return result.reshaped(chosen.shape(x, keep))


def smallest(b: Builder, x: View, dims: Any, keep: bool = False) -> View:
    """Lower aten.amin, and the first result of aten.min.dim."""
    return affine(b, largest(b, affine(b, x, scale=-1.0), dims, keep), scale=-1.0)


def over_channels(call: Callable[..., torch.Tensor]) -> Callable[..., View]:
    """Return a rule (x, dims, keep) for any other function that reduces one dimension, which must have the channels."""

    def rule(b: Builder, x: View, dims: Any, keep: bool = False) -> View:
        chosen = _Dims.of(x, dims)
        return reduce_channels(b, x, chosen.only, call).reshaped(chosen.shape(x, keep))

    return rule


def vector_norm(b: Builder, x: View, order: float = 2, dims: Any = None, keep: bool = False) -> View:
    """Lower aten.linalg_vector_norm."""
    return over_channels(partial(torch.linalg.vector_norm, ord=order))(b, x, dims, keep)


def norm(b: Builder, x: View, order: float | None, dims: Any, keep: bool = False) -> View:
    """Lower aten.norm.ScalarOpt_dim."""
    return vector_norm(b, x, 2 if order is None else order, dims, keep)


def variance(call: Callable[..., torch.Tensor]) -> Callable[..., View]:
    """Return the rule for aten.var or aten.std."""

    def rule(b: Builder, x: View, dims: Any = None, *, correction: float | None = None, keepdim: bool = False) -> View:
        return over_channels(partial(call, correction=1 if correction is None else correction))(b, x, dims, keepdim)

    return rule


def variance_unbiased(call: Callable[..., torch.Tensor]) -> Callable[..., View]:
    """Return the rule for the older form of aten.var or aten.std, with ``unbiased`` for ``correction``."""
    rule = variance(call)
    return lambda b, x, dims, unbiased=True, keep=False: rule(b, x, dims, correction=float(unbiased), keepdim=keep)


def _averaged(b: Builder, x: View, dims: _Dims, keep: bool, *, as_sum: bool) -> View:
    count = prod(x.shape[dim] for dim in dims.reduced)
    weight = 1.0 if as_sum else 1 / count
    result = first_local(
        lambda: _along_axis(b, x, dims.only, weight),
        lambda: mix_channels(b, x, dims.only, torch.full((count,), weight)),
        lambda: _over_pixels(b, x, dims, dims.shape(x, keep), count * weight),
    )
    return result.reshaped(dims.shape(x, keep))


def _along_axis(b: Builder, x: View, dim: int, weight: float) -> View:
    """Reduce one axis of the image by resampling it to one pixel."""
    if len(x.shape) != 4 or dim not in (2, 3):
        raise NotLocal
    image = b.feature_map(x)
    size = image.source.size
    taps = [same_taps(size[0]), same_taps(size[1])]
    taps[dim - 2] = weighted_taps(torch.full((1, size[dim - 2]), weight))
    shape = (*image.shape[:2], taps[0].out_size, taps[1].out_size)
    return b.emit(Resample, (image,), shape, rows=taps[0], columns=taps[1])


def _over_pixels(b: Builder, x: View, dims: _Dims, shape: Shape, scale: float) -> View:
    image = _image(b, x, dims)
    count = image.source.channels
    result = b.emit(GlobalMean, (image,), (1, count) if shape == (1, count) else (1, count, 1, 1))
    return result if scale == 1 else affine(b, result, scale=scale)


def _image(b: Builder, x: View, dims: _Dims) -> View:
    """Return the map whose channels are the only dimension that stays."""
    left = [dim for dim in dims.kept if x.shape[dim] != 1] or list(dims.kept[-1:])
    if len(left) != 1:
        raise NotLocal
    return b.feature_map(Layout.of(x, left[0]).to_map(x))
