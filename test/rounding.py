# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Torch with every result rounded to bfloat16: how far that alone takes a network's outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Rounding(TorchDispatchMode):
    """While it is entered, what torch's operators return is rounded to bfloat16; sums inside of them are not.

    It is for networks that change nothing in place: views become copies, and what is changed would not be rounded.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return tree_map(_rounded, func(*args, **(kwargs or {})))


def _rounded(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.dtype is torch.float32
    return value.bfloat16().float() if is_float else value
