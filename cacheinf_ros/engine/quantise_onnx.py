# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Quantises an ONNX model to int8 after training: a program for :mod:`cacheinf_ros.engine.int8_content` to start.

The program has the lowest priority. It ends when its standard input is closed, as it is when the parent ends, and then
removes the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cacheinf_ros.background_process import given_folder

MODEL, INPUTS, QUANTISED = "model.onnx", "inputs.npy", "int8.onnx"
"""The files in the folder that the program is given: those that it reads, and the one that it writes."""
_PREPARED = "prepared.onnx"
_PER_CHANNEL, _CONVERTED = (
    13,
    17,
)  # opsets: the first that quantises weights channel by channel, and what older ones become


def quantise(folder: Path) -> None:
    """Quantise weights per channel and activations per tensor, by the least and greatest values on the images."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    name = _modernise(folder / MODEL)
    quant_pre_process(folder / MODEL, folder / _PREPARED, skip_symbolic_shape=True)
    quantize_static(
        folder / _PREPARED,
        folder / QUANTISED,
        _Reader(name, folder / INPUTS),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def _modernise(file: Path) -> str:
    """Rewrite the model's file as exporters write it today; return the name of its input."""
    import onnx
    import onnxslim
    from onnx.version_converter import convert_version

    model = onnx.load(file)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    if next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")) < _PER_CHANNEL:
        model = convert_version(onnxslim.slim(model), _CONVERTED)
    onnx.save(model, file)
    return inputs[0].name


class _Reader:
    """Gives ONNX Runtime one image after the other."""

    def __init__(self, name: str, file: Path) -> None:
        self._images: Iterator[Any] = iter(np.load(file, mmap_mode="r"))
        self._name = name

    def get_next(self) -> dict[str, Any] | None:
        image = next(self._images, None)
        return None if image is None else {self._name: np.array(image[None])}


if __name__ == "__main__":
    quantise(given_folder())
