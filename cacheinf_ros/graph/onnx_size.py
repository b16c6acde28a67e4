# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Refuse a size of images at which an ONNX network cannot be computed, and name sizes near it that may do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.picture_inputs import PictureInput

Size = tuple[int, int]
_COARSEST = 32  # pixels of the input for one of the smallest feature map, in most networks


def check_size(path: Path, inputs: Sequence[PictureInput]) -> None:
    """Check that the shapes of all values fit each other.

    Args:
        path: path of the file; where it leaves its images' size open, the error names others.
        inputs: its inputs, which take pictures of one size.

    Raises:
        ModelError: they do not, by ONNX's own rules.
    """
    size, is_open = inputs[0].size, False
    model = onnx.load(path, load_external_data=False)
    values = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    for each in inputs:
        sides = values[each.name]
        is_open |= not all(side.dim_value for side in sides[2:])
        for side, length in zip(sides, each.shape, strict=True):
            side.dim_value = length
    for output in model.graph.output:  # whatever the exporter wrote was for another size
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        first = str(error).partition("\n")[0].rpartition("Inference error(s): ")[2]
        remedy = _remedy(size, sum(each.pictures for each in inputs)) if is_open else ""
        raise ModelError(f"{path} cannot be computed for images of {_by(size)}: {first}{remedy}") from None


def _remedy(size: Size, pictures: int) -> str:
    below = tuple(max(side // _COARSEST, 1) * _COARSEST for side in size)
    above = tuple(-(-side // _COARSEST) * _COARSEST for side in size)
    near = [(height, width * pictures) for height, width in sorted({below, above} - {size})]
    return f". Most such networks take multiples of {_COARSEST}: try {' or '.join(map(_by, near))}" if near else ""


def _by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))
