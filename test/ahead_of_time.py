# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compile, for a GPU that need not be there, the machine code of all kernels that frames of a network launch.

Kernels are compiled for one camera, and for three cameras that are computed in one pass.

Run as a program, in an environment that does not ask Triton to interpret kernels:
``python ahead_of_time.py CAPABILITY:PRECISION...`` prints as JSON, for each argument and by kernel, the variants of the
kernel: whether each uses Tensor Cores, and its bytes of shared memory. One process takes several, because importing
torch and Triton takes as long as compiling many kernels, and kernels without floats are the same for two precisions.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.gpu.camera_batch import CameraBatch
from cacheinf_ros.engine.gpu.frame_on_device import FrameOnDevice
from cacheinf_ros.engine.gpu.kernel_launches import Launch, noted_launches
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.half_maps import kept_floats, with_maps_in
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.ir import Graph

_WARP = 32
_POINTERS = {
    torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.int32: "*i32", torch.uint8: "*u8",
}  # fmt: skip
Compiled = dict[str, list[tuple[bool, int]]]


def compile_frames(graph: Graph, capability: int, floats: torch.dtype) -> Compiled:
    """Compile the kernels that frames of a network launch, without delta thresholds and with each of their criteria.

    Frames have the size of the input, twice its sides, and others that are resized by area and linearly.
    """
    graph = with_maps_in(graph, floats)
    backend = TritonBackend(torch.device("cpu"), Tiles.of_floats(floats), floats=floats)
    programs = [Program(graph, backend), Program(graph, backend, seat=CameraBatch(graph, backend, 3).seat())]
    height, width = programs[0].input.size
    card = ModelCard(name="", input_size=(height, width))
    frames = FrameOnDevice(Preprocessor(card), programs[0].input, shares_memory=False)
    with noted_launches() as launches:
        for size in ((height, width), (2 * height, 2 * width), (3 * height, 2 * width + 1), (height + 9, width)):
            frames.write(np.zeros((*size, 3), np.uint8), None, with_margin=False, everything=True)
        for program in programs:
            program.execute()
            for criterion in Criterion:
                program.set_thresholds({program.kept[0]: DeltaThreshold(threshold=0.5, criterion=criterion)})
                program.execute()
    variants = {f"{each.kernel} {[*map(_type, each.arguments)]} {each.constants}": each for each in launches}
    found: Compiled = {}
    for each in variants.values():
        found.setdefault(each.kernel.__name__, []).append(_compiled(each, capability))
    return found


def _compiled(each: Launch, capability: int) -> tuple[bool, int]:
    kernel, constants = each.kernel, dict(each.constants)
    options = {name: constants.pop(name) for name in constants.keys() - set(kernel.arg_names)}
    names = [name for name in kernel.arg_names if name not in constants]
    signature = {name: _type(value) for name, value in zip(names, each.arguments, strict=True)}
    signature |= dict.fromkeys(constants, "constexpr")
    positions = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=positions)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, _WARP), options=options)
    return "mma" in compiled.asm["ptx"], compiled.metadata.shared


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


if __name__ == "__main__":
    from networks.shared_models import mixed_model

    found = {}
    for wanted in sys.argv[1:]:
        capability, precision = wanted.split(":")
        floats = kept_floats("cuda", Precision(precision))
        found[wanted] = compile_frames(mixed_model().graph, int(capability), floats)
    print(json.dumps(found))
