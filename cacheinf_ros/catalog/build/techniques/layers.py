# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Removal of layers (MCDNN section 5.1): modules whose output has the shape of their input are left out."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cacheinf_ros.catalog.build.techniques.change import Inapplicable
from cacheinf_ros.catalog.build.techniques.probe import outputs_of

_LAYERS = (nn.Conv2d, nn.Linear)


def removable(module: nn.Module, image: Tensor) -> tuple[str, ...]:
    """Return the names of modules that contain layers and keep the shape of their input.

    Args:
        image: float32 [1, 3, height, width].
    """
    found: list[str] = []
    hooks = []
    for name, part in module.named_modules():
        if name and any(isinstance(layer, _LAYERS) for layer in part.modules()):
            hooks.append(part.register_forward_hook(_noting(name, found)))
    try:
        outputs_of(module, image)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(sorted(name for name in found if found.count(name) == 1))


def least_missed(module: nn.Module, count: int, images: Sequence[Tensor]) -> tuple[str, ...]:
    """Choose so many layers to remove, one by one: always the one that changes outputs least for its weights.

    Raises:
        Inapplicable: there are too few removable layers.
    """
    chosen: list[str] = []
    for _ in range(count):
        reduced = remove(module, chosen)
        names = [n for n in removable(reduced, images[0]) if not _overlaps(n, chosen)]
        if not names:
            raise Inapplicable(f"it has no {'more ' if chosen else ''}layers that keep the shape of their input")
        before = [outputs_of(reduced, image) for image in images]
        chosen.append(min(names, key=lambda name: _loss(reduced, name, images, before)))
    return tuple(chosen)


def remove(module: nn.Module, names: Sequence[str]) -> nn.Module:
    """Return a copy without these modules.

    Raises:
        Inapplicable: there is no module of that name.
    """
    changed = copy.deepcopy(module)
    for name in names:
        if name not in dict(changed.named_modules()) or not name:
            raise Inapplicable(f"it has no layer {name!r}")
        changed.set_submodule(name, nn.Identity())
    return changed


def _noting(name: str, found: list[str]) -> object:
    def note(part: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        is_same = len(inputs) == 1 and isinstance(inputs[0], Tensor) and isinstance(output, Tensor)
        if is_same and inputs[0].shape == output.shape:  # type: ignore[attr-defined]
            found.append(name)

    return note


def _loss(module: nn.Module, name: str, images: Sequence[Tensor], before: Sequence[Sequence[Tensor]]) -> float:
    """Return the squared change of the outputs over their squares, per weight that is saved."""
    changed = remove(module, [name])
    error = size = 0.0
    for image, exact in zip(images, before, strict=True):
        for ours, theirs in zip(outputs_of(changed, image), exact, strict=True):
            error += float((ours - theirs).square().sum())
            size += float(theirs.square().sum())
    saved = sum(p.numel() for p in module.get_submodule(name).parameters())
    return error / max(size, torch.finfo(torch.float32).tiny) / max(saved, 1)


def _overlaps(name: str, chosen: Sequence[str]) -> bool:
    return any(name == other or name.startswith(f"{other}.") or other.startswith(f"{name}.") for other in chosen)
