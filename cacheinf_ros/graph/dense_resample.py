# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Resample whole maps: by torch's own function where one computes the same, otherwise tap by tap."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.graph.ir import Resample
from cacheinf_ros.graph.make_taps import is_same, is_single, padding_of, resized_taps
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps

_RESIZES: tuple[tuple[str, bool | None], ...] = (("nearest", None), ("bilinear", False), ("bilinear", True))


class DenseResample(nn.Module):
    """Resampling: out[y, x] = sum over taps of weight_y * weight_x * in[index_y, index_x]."""

    def __init__(self, operator: Resample) -> None:
        super().__init__()
        self._whole = _padding(operator) or _resize(operator)
        self._fill = operator.fill
        axes = ((2, operator.rows), (3, operator.columns))
        self._axes = nn.ModuleList(_Axis(taps, dim, self._fill) for dim, taps in axes if not is_same(taps))

    def forward(self, x: Tensor) -> Tensor:
        """Resample a map."""
        if self._whole is not None:
            return self._whole(x)
        for axis in self._axes:
            x = axis(x)
        return x


class _Axis(nn.Module):
    """Resampling along one axis; an output pixel whose only tap lies outside gets the fill."""

    index: Tensor
    weight: Tensor | None
    outside: Tensor | None

    def __init__(self, taps: AxisTaps, dim: int, fill: float) -> None:
        super().__init__()
        self._dim, self._fill = dim, fill
        shape = (-1, 1) if dim == 2 else (-1,)
        self.register_buffer("index", taps.index.clamp(min=0).long().t().contiguous())
        weight = taps.weight.masked_fill(taps.index == OUTSIDE, 0.0)
        self.register_buffer(
            "weight", None if bool((weight == 1).all()) else weight.t().unflatten(1, shape).contiguous()
        )
        outside = (taps.index == OUTSIDE).all(1) if is_single(taps) else torch.zeros(taps.out_size, dtype=torch.bool)
        self.register_buffer("outside", outside.view(shape) if bool(outside.any()) else None)

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor | None = None
        for tap, index in enumerate(self.index):
            value = x.index_select(self._dim, index)
            value = value if self.weight is None else value * self.weight[tap]
            total = value if total is None else total + value
        assert total is not None
        return total if self.outside is None else total.masked_fill(self.outside, self._fill)


def _padding(operator: Resample) -> Callable[[Tensor], Tensor] | None:
    rows, columns = padding_of(operator.rows), padding_of(operator.columns)
    if rows is None or columns is None:
        return None
    return lambda x: functional.pad(x, (*columns, *rows), value=operator.fill)


def _resize(operator: Resample) -> Callable[[Tensor], Tensor] | None:
    size = (operator.rows.out_size, operator.columns.out_size)
    for mode, corners in _RESIZES:
        if all(_is_resize(taps, mode, corners) for taps in (operator.rows, operator.columns)):
            return lambda x, m=mode, c=corners: functional.interpolate(x, size, mode=m, align_corners=c)  # type: ignore[misc]
    return None


def _is_resize(taps: AxisTaps, mode: str, corners: bool | None) -> bool:
    size = (taps.out_size, 2)
    other = resized_taps(
        lambda columns: functional.interpolate(columns, size, mode=mode, align_corners=corners), taps.in_size
    )
    if other.index.shape != taps.index.shape or not torch.equal(other.index, taps.index):
        return False
    return torch.allclose(other.weight, taps.weight, atol=1e-6)
