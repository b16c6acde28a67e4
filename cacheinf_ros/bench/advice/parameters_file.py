# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Writes a way of running a model as a parameter file for the launch files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import yaml

from cacheinf_ros.bench.advice.choices import Choice
from cacheinf_ros.config import Value
from cacheinf_ros.graph import absolute_reference
from cacheinf_ros.sources import ValueRange, VoxelGrid

_COLUMNS = 110


def parameters_yaml(
    choice: Choice,
    model: str,
    *,
    weights: Path | None = None,
    size: str | None = None,
    value_ranges: Sequence[ValueRange | None] = (),
    voxels: VoxelGrid | None = None,
    comments: Sequence[str] = (),
) -> str:
    """Write the parameters for all nodes, those of the model included.

    Args:
        choice: a way that the nodes have.
        model: a reference; the path of a file is made absolute, as nodes start in any folder.
        size: the size of the model's input, HEIGHTxWIDTH.
        value_ranges: the camera's raw values that are black and white, None: it has 8 bits; and those of the camera
            whose pictures are shown on the right, where there is one.
        voxels: the cells that show clouds of points; None: there are images.
        comments: sentences to put at the top.
    """
    assert choice.parameters is not None
    parameters: dict[str, Value] = {"model": absolute_reference(model)}
    if weights is not None:
        parameters["weights"] = str(weights.resolve())
    if size:
        parameters["input_size"] = size
    for name, value_range in zip(("image_values", "right.image_values"), value_ranges, strict=False):
        if value_range is not None:
            parameters[name] = [value_range.black, value_range.white]
    if voxels is not None:
        parameters["voxels"] = str(voxels)
    text = yaml.safe_dump({"/**": {"ros__parameters": {**parameters, **choice.parameters}}}, sort_keys=False)
    beside = (f"Needs beside it: {choice.beside}",) if choice.beside else ()
    lines = [
        line for comment in (*comments, *beside) for line in textwrap.wrap(comment, _COLUMNS, break_on_hyphens=False)
    ]
    return "".join(f"# {line}\n" for line in lines) + text
