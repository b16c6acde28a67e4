# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs a network by torch.compile, as users of torch would."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from cacheinf_ros.engine.dense_backends import Dense, run_by_torch
from cacheinf_ros.graph import Model


def compiled_by_torch(model: Model, device: str = "cpu", dtype: torch.dtype = torch.float32, **options: Any) -> Dense:
    """Compile a network in channels_last; compilation is complete when this returns.

    Args:
        options: options of torch.compile.
    """
    module = copy.deepcopy(model.module).to(device, dtype)
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    dense = run_by_torch(torch.compile(module, **options), torch.channels_last, device, dtype)
    dense(np.zeros((1, 3, *model.input_size), np.float32))
    return dense
