# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs a network by ncnn, which users of ARM boards often run: from ONNX, by ncnn's converter pnnx, in float32."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.dense_backends import Dense
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model

_PATIENCE_S = 300.0
_NARROW = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage")


def is_ncnn_installed() -> bool:
    """Tell whether ncnn and pnnx are installed: ``pip install --no-deps -r requirements-ncnn.txt``."""
    return all(find_spec(name) is not None for name in ("ncnn", "pnnx"))


def run_by_ncnn(model: Model, threads: int) -> Dense:
    """Convert a network, and return a function that runs it.

    Raises:
        ImportError: ncnn or pnnx is not installed.
        EngineError: the network cannot be converted, or has outputs that ncnn does not keep.
    """
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = threads
    for option in _NARROW:
        setattr(net.opt, option, False)
    with TemporaryDirectory() as folder:
        param, weights = _converted(model, Path(folder))
        if net.load_param(str(param)) or net.load_model(str(weights)):
            raise EngineError(f"ncnn cannot load {model.name}")
    (given,), names = net.input_names(), sorted(net.output_names(), key=lambda name: int(name.removeprefix("out")))
    shapes = [model.graph.tensors[tensor].shape for _, tensor in model.graph.outputs]
    if len(names) != len(shapes):
        raise EngineError(f"ncnn has {len(names)} outputs of {model.name}, of {len(shapes)}")

    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        extractor = net.create_extractor()
        extractor.input(given, ncnn.Mat(np.ascontiguousarray(image[0])))
        found = [np.array(extractor.extract(name)[1]) for name in names]
        return [values.reshape(shape) for values, shape in zip(found, shapes, strict=True)]

    return run


def _converted(model: Model, folder: Path) -> tuple[Path, Path]:
    import pnnx

    (folder / "model.onnx").write_bytes(onnx_content(model))
    height, width = model.input_size
    command = [pnnx.EXEC_PATH, "model.onnx", f"inputshape=[1,3,{height},{width}]", "fp16=0"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S)
    param, weights = folder / "model.ncnn.param", folder / "model.ncnn.bin"
    if ran.returncode or not param.exists() or not weights.exists():
        last = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        raise EngineError(f"pnnx cannot convert {model.name}: {last}")
    return param, weights
