# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Refuse a size of images at which an ONNX network cannot be computed, and name sizes near it that may do."""

from __future__ import annotations

from pathlib import Path

import onnx

from cacheinf_ros.errors import ModelError

Size = tuple[int, int]
_COARSEST = 32  # pixels of the input for one of the smallest feature map, in most networks


def check_size(path: Path, name: str, image_shape: tuple[int, int, int]) -> None:
    """Check that the shapes of all values fit each other.

    Args:
        path: path of the file; where it leaves its images' size open, the error names others.
        name: name of its input.
        image_shape: (channels, height, width) of the images.

    Raises:
        ModelError: they do not, by ONNX's own rules.
    """
    size = image_shape[1:]
    model = onnx.load(path, load_external_data=False)
    (image,) = (value for value in model.graph.input if value.name == name)
    is_open = not all(side.dim_value for side in image.type.tensor_type.shape.dim[2:])
    for side, length in zip(image.type.tensor_type.shape.dim, (1, *image_shape), strict=True):
        side.dim_value = length
    for output in model.graph.output:  # whatever the exporter wrote was for another size
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        first = str(error).partition("\n")[0].rpartition("Inference error(s): ")[2]
        remedy = _remedy(size) if is_open else ""
        raise ModelError(f"{path} cannot be computed for images of {_by(size)}: {first}{remedy}") from None


def _remedy(size: Size) -> str:
    below = tuple(max(side // _COARSEST, 1) * _COARSEST for side in size)
    above = tuple(-(-side // _COARSEST) * _COARSEST for side in size)
    near = sorted({below, above} - {size})
    return f". Most such networks take multiples of {_COARSEST}: try {' or '.join(map(_by, near))}" if near else ""


def _by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))
