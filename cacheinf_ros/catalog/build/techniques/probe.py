# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The outputs of a network as a list, however it returns them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cacheinf_ros.errors import CatalogError


def as_tensors(output: object) -> list[Tensor]:
    """Return a list of tensors from a tensor, a tuple of them, or a dictionary, in order.

    Raises:
        CatalogError: the output is none of these.
    """
    if isinstance(output, Tensor):
        return [output]
    values = output.values() if isinstance(output, Mapping) else output
    if isinstance(output, (Mapping, tuple, list)) and all(isinstance(v, Tensor) for v in values):  # type: ignore[attr-defined]
        return list(values)  # type: ignore[call-overload]
    raise CatalogError(f"the model returns {type(output).__name__}: expected a tensor, a tuple or a dictionary of them")


@torch.no_grad()
def outputs_of(module: nn.Module, image: Tensor) -> list[Tensor]:
    """Run float32 [n, 3, height, width] through a network, without gradients."""
    return as_tensors(module(image))


def shapes_of(module: nn.Module, image: Tensor) -> list[tuple[int, ...]]:
    """Return the shapes of a network's outputs."""
    return [tuple(value.shape) for value in outputs_of(module, image)]


def output_layers(module: nn.Module, image: Tensor) -> frozenset[str]:
    """Return the names of leaf modules whose results are outputs of the network, unchanged."""
    made: list[tuple[str, object]] = []
    leaves = [(name, part) for name, part in module.named_modules() if not list(part.children())]
    hooks = [
        part.register_forward_hook(lambda _part, _inputs, output, name=name: made.append((name, output)))
        for name, part in leaves
    ]
    try:
        outputs = outputs_of(module, image)
    finally:
        for hook in hooks:
            hook.remove()
    return frozenset(name for name, value in made if any(value is output for output in outputs))
