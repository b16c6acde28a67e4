# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Writes a model as an exported program with its card, for :func:`load_model` to read anywhere."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from cacheinf_ros.graph.card import TRUSTED
from cacheinf_ros.graph.load import Model, export, quiet_torch


def write_model(model: Model, card: Path) -> None:
    """Write a model: a card, and the network beside it with the same name, as ``.pt2``.

    Args:
        card: a file, ``.yaml``; what results call the model stays as it is.

    Raises:
        ModelError: the model cannot be exported.
        OSError: a file cannot be written.
    """
    program = export(model.module, model.card)
    exported = card.with_suffix(".pt2")
    with quiet_torch():
        torch.export.save(program, exported)
    content = model.card.model_copy(update={"factory": f"{TRUSTED}{exported.name}", "weights": None}).model_dump(
        mode="json"
    )
    card.write_text(yaml.safe_dump(content, sort_keys=False, width=120), encoding="utf-8")
