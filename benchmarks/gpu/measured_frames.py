# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Times frames on a CUDA device, from the CPU's memory and back to it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from cacheinf_ros.engine.dense_torch_on_gpu import TorchOnDevice
from cacheinf_ros.engine.engine_config import EngineConfig, Precision
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.graph import Model

_WARM_UP = 8  # frames: kernels are compiled in the first, and the fourth is captured as a graph
_FRAMES = 30


@torch.inference_mode()
def measured_ms(model: Model, shares: Sequence[float], precision: Precision) -> list[float]:
    """Measure the median milliseconds of a frame in which a rectangle in the middle has changed, by its share.

    The time is from the changed pixels in the CPU's memory to the outputs there.

    Raises:
        EngineError: there is no CUDA device.
    """
    executed, backend = executed_model(model, EngineConfig(device="cuda", threads=1, precision=precision))
    program = Program(executed.graph, backend)
    target = program.input.pixels
    image = torch.rand(target.shape, dtype=target.dtype)
    target.copy_(image)
    program.changed_input.fill()
    program.execute(refresh=True)
    found = []
    for share in shares:
        took = [_frame_ms(program, image, share) for _ in range(_WARM_UP + _FRAMES)]
        found.append(float(np.median(took[_WARM_UP:])))
    return found


def measured_dense_ms(model: Model) -> float:
    """Measure torch's median ms in float16, as one CUDA graph, from the input in the CPU's memory to outputs there."""
    run = TorchOnDevice(model.graph, torch.device("cuda"), torch.float16)
    image = np.random.default_rng(0).random((1, 3, *model.input_size), np.float32)
    took = []
    for _ in range(_WARM_UP + _FRAMES):
        started = time.perf_counter_ns()
        run(image)
        took.append((time.perf_counter_ns() - started) / 1e6)
    return float(np.median(took[_WARM_UP:]))


def _frame_ms(program: Program, image: torch.Tensor, share: float) -> float:
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    changed, target = program.changed_input, program.input.pixels
    changed.fill_middle(share)
    listed = torch.from_numpy(changed.listed).long()
    values = image[listed]
    begun.record()
    target[listed.to(target.device)] = values.to(target.device)
    for output in program.execute().values():
        output.cpu()
    ended.record()
    ended.synchronize()
    return float(begun.elapsed_time(ended))
