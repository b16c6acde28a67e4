# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A larger stride (MCDNN section 5.1): the first convolution gets a larger stride, so that later layers compute less.

Where the outputs would change their shape, as a detector's do, a later layer gets a smaller stride in return.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from cacheinf_ros.catalog.build.techniques.change import Inapplicable
from cacheinf_ros.catalog.build.techniques.probe import shapes_of

_Window = nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d


def larger_stride(module: nn.Module, factor: int, size: tuple[int, int]) -> nn.Module:
    """Return a copy whose first convolution has ``factor`` times the stride, with outputs of the same shapes.

    Args:
        size: (height, width) of the input.

    Raises:
        Inapplicable: there is no convolution, or no copy whose outputs keep their shapes.
    """
    image = torch.zeros(1, 3, *size)
    expected = shapes_of(module, image)
    windows = [
        name for name, part in module.named_modules() if isinstance(part, (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d))
    ]
    first = next((name for name in windows if isinstance(module.get_submodule(name), nn.Conv2d)), None)
    if first is None:
        raise Inapplicable("it has no convolution")
    faster = _with_stride(module, first, factor, 1)
    candidates = [name for name in reversed(windows) if name != first and _is_divisible(module, name, factor)]
    for changed in (faster, *(_with_stride(faster, name, 1, factor) for name in candidates)):
        try:
            if shapes_of(changed, image) == expected:
                return changed
        except RuntimeError:  # shapes that do not fit together
            continue
    raise Inapplicable(
        f"its outputs change their shape with {factor} times the stride, and no later layer makes up for it"
    )


def _with_stride(module: nn.Module, name: str, factor: int, divisor: int) -> nn.Module:
    changed = copy.deepcopy(module)
    part = changed.get_submodule(name)
    assert isinstance(part, _Window)
    rows, columns = _stride(part)
    part.stride = (rows * factor // divisor, columns * factor // divisor)
    return changed


def _is_divisible(module: nn.Module, name: str, factor: int) -> bool:
    part = module.get_submodule(name)
    assert isinstance(part, _Window)
    return all(step % factor == 0 for step in _stride(part))


def _stride(part: _Window) -> tuple[int, int]:
    stride = part.stride
    return (stride, stride) if isinstance(stride, int) else (stride[0], stride[1])
