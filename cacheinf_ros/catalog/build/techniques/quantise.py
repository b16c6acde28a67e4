# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reduced bit width of stored weights (MCDNN section 5.1): 32, 16 or 8 bits.

This makes the file smaller and loading faster. Computed in float32, a loaded variant needs as much memory and time as
with 32 bits; in int8 (:attr:`.Recipe.int8`) the engine computes with these very weights. Biases and the parameters of
normalisation stay in 32 bits: they are small.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from cacheinf_ros.catalog.build.techniques.change import BITS
from cacheinf_ros.errors import CatalogError

_SCALE = ".scale"  # suffix of a weight's name that names its scales
_LARGEST = 127
State = dict[str, Tensor]


def pack(state: Mapping[str, Tensor], bits: int) -> State:
    """Return a network's weights as they are stored; they share no memory with the network.

    Weights of two and more dimensions become float16, or int8 with float32 scales [outputs] under ``name.scale``:
    symmetric, so that the largest weight of each output channel becomes 127.

    Raises:
        CatalogError: the width is not supported, or a weight does not fit it.
    """
    if bits not in BITS:
        raise CatalogError(f"weights of {bits} bits: choose from {', '.join(map(str, BITS))}")
    packed: State = {}
    for name, value in state.items():
        if not value.is_floating_point() or value.ndim < 2 or bits == 32:
            packed[name] = value.detach().clone().contiguous()
        elif not torch.isfinite(value).all():
            raise CatalogError(
                f"weight {name} is not finite and cannot be stored with {bits} bits; train the model anew"
            )
        elif bits == 16:
            packed[name] = _halved(name, value.detach())
        else:
            packed[name], packed[name + _SCALE] = quantised(value.detach())
    return packed


def unpack(packed: Mapping[str, Tensor]) -> State:
    """Return as float32 the weights that :func:`pack` has stored; the same bits every time."""
    state: State = {}
    for name, value in packed.items():
        scale = packed.get(name + _SCALE)
        if value.dtype == torch.int8 and scale is not None:
            state[name] = value.float() * scale.view(-1, *[1] * (value.ndim - 1))
        elif value.dtype == torch.float16:
            state[name] = value.float()
        elif not (name.endswith(_SCALE) and name.removesuffix(_SCALE) in packed):
            state[name] = value
    return state


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise float32 [outputs, ...] to int8 of the same shape, with float32 [outputs] step sizes."""
    largest = weight.flatten(1).abs().amax(1)
    scale = torch.where(largest > 0, largest / _LARGEST, torch.ones_like(largest))
    steps = (weight / scale.view(-1, *[1] * (weight.ndim - 1))).round()
    return steps.clamp(-_LARGEST, _LARGEST).to(torch.int8).contiguous(), scale.contiguous()


def packed_bytes(packed: Mapping[str, Tensor]) -> int:
    """Return the bytes of all values, without the file's header."""
    return sum(value.numel() * value.element_size() for value in packed.values())


def _halved(name: str, value: Tensor) -> Tensor:
    half = value.half()
    if not torch.isfinite(half).all():
        raise CatalogError(f"weight {name} reaches {value.abs().max():g}, beyond float16; use 32 or 8 bits")
    return half.contiguous()
