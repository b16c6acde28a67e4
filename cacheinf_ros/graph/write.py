# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Write a model as an exported program with its card, for :func:`load_model` to read anywhere."""

from __future__ import annotations

from pathlib import Path

import torch

from cacheinf_ros.disk_cache import digest, replacing
from cacheinf_ros.graph.card import TRUSTED, is_grey
from cacheinf_ros.graph.load import Model, export, quiet_torch
from cacheinf_ros.yaml_text import whole_yaml


def write_model(model: Model, card: Path) -> None:
    """Write a model: a card, and the network beside it with the same name, as ``.pt2``.

    Args:
        card: file of the card, ``.yaml``; the model's name in results stays as it is.

    Raises:
        ModelError: the model cannot be exported.
        OSError: a file cannot be written.
    """
    program = export(model.module, model.card)
    exported = card.with_suffix(".pt2")
    with replacing(exported) as unfinished, unfinished.open("xb") as file, quiet_torch():
        torch.export.save(program, file)
    said = {"factory": f"{TRUSTED}{exported.name}", "weights": None, "sha256": digest(exported)}
    if is_grey(model.card):
        said["channel_order"] = "rgb"  # the network itself makes one channel of three now
    constants_now = {"fixed_inputs", "one_channel_range"}
    content = model.card.model_copy(update=said).model_dump(mode="json", exclude=constants_now)
    with replacing(card) as unfinished:
        unfinished.write_text(whole_yaml(content), encoding="utf-8")
