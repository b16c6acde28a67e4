# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Our own kernels as a dense engine: nothing is kept between frames, so all feature maps share one small arena."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.compile import compile_program
from cacheinf_ros.engine.engine_config import EngineConfig, Precision
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.graph import Model, Scales


class DenseProgram:
    """A model compiled for dense execution; only one thread may use it at a time."""

    def __init__(
        self,
        model: Model,
        threads: int,
        precision: Precision = Precision.FLOAT32,
        device: str = "cpu",
        scales: Scales | None = None,
    ) -> None:
        """Compile the model; packed weights are shared with the model's engines.

        The cost of its operators, and so the fastest kernel of each, is measured where no engine has done so.

        Args:
            scales: for int8, the scales of a model without its own; None: those that ``cacheinf quantise`` stored.

        Raises:
            NotImplementedError: there are no compiled kernels, or they do not compute in this precision here.
            EngineError: the precision is int8, and there are no scales.
        """
        if torch.device(device).type == "cpu":
            _check_compiled_kernels(precision)
        config = EngineConfig(device=device, threads=threads, precision=precision, cache_budget_mb=0)
        model = replace(model, scales=model.scales if precision is Precision.INT8 else None)
        executed, backend = executed_model(model, config, scales)
        self._program, cost = compile_program(executed, config, backend)
        self._program.profile.switch_kernels({name: curve.switch_from for name, curve in cost.curves.items()})
        self._input = backend.input(Preprocessor(model.card), self._program.input)

    @torch.inference_mode()
    def read(self, frame: NDArray[np.uint8]) -> None:
        """Write a frame, uint8 [height, width, 3], BGR, into the input that :meth:`run` starts from."""
        self._input.write_all(self._input.fit(frame), self._program.changed_input)

    @torch.inference_mode()
    def run(self, _: None) -> list[NDArray[Any]]:
        """Compute the outputs for the frame that was read last; they are overwritten by the next run."""
        with self._program.awake():
            return [value.cpu().numpy() for value in self._program.execute(refresh=True).values()]


def _check_compiled_kernels(precision: Precision) -> None:
    library = kernel_library()
    if library is None:
        raise NotImplementedError("the compiled kernels are not built")
    if precision is Precision.BFLOAT16 and not library.ci_has_bfloat16():
        raise NotImplementedError(f"this processor does not compute in {precision.value}")
