# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Dense engines of others on a CUDA device. Nothing here has run on one: none was at hand."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.kernels.reference_kernels import on_device
from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.ir import Global, Pointwise

_log = logging.getLogger(__name__)
_ERRORS = 3  # a severity of ONNX Runtime, which has no names for them
_WARM_UP = 3  # runs before one is captured, in which cuDNN chooses its kernels


class TorchOnDevice:
    """A graph in plain torch, channels_last; on a GPU captured as one CUDA graph, where that can be."""

    def __init__(
        self, graph: Graph, device: torch.device, dtype: torch.dtype = torch.float32, *, tf32: bool = False
    ) -> None:
        """Put the weights on the device.

        Args:
            dtype: of weights and maps.
            tf32: whether convolutions may round float32 factors to TF32.
        """
        height, width = graph.tensors[graph.input].shape[2:]
        self._module = DenseGraph(_constants_on(graph, device)).to(device=device, dtype=dtype)
        self._tf32 = tf32
        self._image = torch.zeros((1, 3, height, width), device=device, dtype=dtype).to(
            memory_format=torch.channels_last
        )
        self._outputs: list[torch.Tensor] = []
        self._graph = self._captured() if device.type == "cuda" else None

    @torch.inference_mode()
    def __call__(self, image: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Compute the outputs, in the graph's order, on the CPU: it has waited for the device by then."""
        self._image.copy_(torch.from_numpy(image))
        if self._graph is None:
            self._outputs = self._computed()
        else:
            self._graph.replay()
        return [_as_array(value) for value in self._outputs]

    def _computed(self) -> list[torch.Tensor]:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=self._tf32):
            return list(self._module(self._image).values())

    @torch.inference_mode()
    def _captured(self) -> torch.cuda.CUDAGraph | None:
        stream = torch.cuda.Stream(self._image.device)
        stream.wait_stream(torch.cuda.current_stream(self._image.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._computed()
        torch.cuda.current_stream(self._image.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            # what other threads do on the device meanwhile, such as frames of the engine, is no error
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._outputs = self._computed()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            _log.warning("torch's dense frame cannot be one CUDA graph (%s): slower, launch by launch", reason)
            return None
        return graph


def onnxruntime_on_cuda(content: bytes, threads: int, device: torch.device) -> Any:
    """A session of ONNX Runtime on a CUDA device, in float32 without TF32.

    Raises:
        NotImplementedError: the device is no CUDA device, or this ONNX Runtime computes on none.
    """
    import onnxruntime

    provider = "CUDAExecutionProvider"
    if device.type != "cuda":
        raise NotImplementedError(f"{provider} does not run on device {device}")
    if provider not in onnxruntime.get_available_providers():
        raise NotImplementedError(f"this ONNX Runtime has no {provider}: pip install onnxruntime-gpu in its place")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    settings = {"device_id": str(device.index or 0), "use_tf32": "0"}
    session = onnxruntime.InferenceSession(content, options, providers=[(provider, settings), "CPUExecutionProvider"])
    if provider not in session.get_providers():  # without its libraries it falls back to the CPU, and does not raise
        raise NotImplementedError(f"{provider} could not be loaded: its CUDA and cuDNN are missing")
    return session


def _constants_on(graph: Graph, device: torch.device) -> Graph:
    """The graph with the constants of its calls on a device; weights follow with the modules that hold them."""
    operators = tuple(
        replace(
            operator,
            arguments=on_device(operator.arguments, device),
            **({"keywords": on_device(operator.keywords, device)} if isinstance(operator, Global) else {}),
        )
        if isinstance(operator, (Pointwise, Global))
        else operator
        for operator in graph.operators
    )
    return replace(graph, operators=operators)


def _as_array(value: torch.Tensor) -> NDArray[Any]:
    """On the CPU; numpy has no bfloat16, and whoever judges outputs expects float32."""
    return (value.float() if value.is_floating_point() else value).cpu().numpy()
