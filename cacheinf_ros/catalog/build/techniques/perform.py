# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Applies to a network the changes that a recipe lists."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from cacheinf_ros.catalog.build.techniques.change import Change, Technique
from cacheinf_ros.catalog.build.techniques.factorise import factorise
from cacheinf_ros.catalog.build.techniques.layers import least_missed, remove
from cacheinf_ros.catalog.build.techniques.prune import prune
from cacheinf_ros.catalog.build.techniques.stride import larger_stride


def planned(module: nn.Module, technique: Technique, strength: float, images: Sequence[Tensor]) -> Change:
    """Return the change at this strength, with what must be chosen for this network.

    Args:
        images: float32 [1, 3, height, width] each; by these the layers that matter least are chosen.

    Raises:
        Inapplicable: see :func:`least_missed`.
    """
    layers = least_missed(module, int(strength), images) if technique is Technique.FEWER_LAYERS else ()
    return Change(technique=technique, strength=strength, layers=layers)


def perform(module: nn.Module, changes: Sequence[Change], size: tuple[int, int]) -> nn.Module:
    """Return a changed copy in mode eval; its architecture depends only on the changes and the original's.

    Args:
        size: (height, width) of the input.

    Raises:
        Inapplicable: a change has no effect on the network.
    """
    for change in changes:
        module = _changed(module, change, size).eval()
    return module


def _changed(module: nn.Module, change: Change, size: tuple[int, int]) -> nn.Module:
    match change.technique:
        case Technique.FACTORISE:
            return factorise(module, change.strength, size)
        case Technique.FEWER_KERNELS:
            return prune(module, nn.Conv2d, change.strength, size)
        case Technique.SMALLER_DENSE:
            return prune(module, nn.Linear, change.strength, size)
        case Technique.LARGER_STRIDE:
            return larger_stride(module, int(change.strength), size)
        case Technique.FEWER_LAYERS:
            return remove(module, change.layers)
