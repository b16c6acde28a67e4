# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Small models that many tests use and none changes: loaded once in each process, as exporting takes longer."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from cacheinf_ros.graph import Model, load_model


@cache
def mixed_model() -> Model:
    """Return :class:`.small.Mixed` as a model for images of 61x47 pixels."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return load_model(f"{Path(__file__).parent / 'small.py'}:mixed", input_size=(61, 47))


@cache
def small_scenenet() -> Model:
    """Return the built-in detector for images of 96x128 pixels."""
    return load_model("scenenet", input_size=(96, 128))
