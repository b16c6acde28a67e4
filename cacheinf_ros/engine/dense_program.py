# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Our own kernels as a dense engine: nothing is kept between frames, so all feature maps share one small arena."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.compile import compile_program
from cacheinf_ros.engine.engine_config import EngineConfig, Precision
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.graph import Model


def run_by_own_kernels(
    model: Model, threads: int, precision: Precision = Precision.FLOAT32
) -> Callable[[NDArray[np.float32]], list[NDArray[Any]]]:
    """Prepare a model for the compiled kernels; packed weights are shared with the model's engines.

    What its operators cost, and so which of their kernels are the fastest, is measured where no engine has done so.

    Raises:
        NotImplementedError: there are no compiled kernels, or they do not compute in this precision here.
    """
    library = kernel_library()
    if library is None:
        raise NotImplementedError("the compiled kernels are not built")
    if precision is Precision.BFLOAT16 and not library.ci_has_bfloat16():
        raise NotImplementedError(f"this processor does not compute in {precision.value}")
    config = EngineConfig(threads=threads, precision=precision, cache_budget_mb=0)
    executed, backend = executed_model(model, config)
    program, cost = compile_program(executed, config, backend)
    program.profile.switch_kernels({name: curve.switch_from for name, curve in cost.curves.items()})
    target = program.input.image.numpy()

    @torch.inference_mode()
    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        with program.awake():
            np.copyto(target, image)  # in this thread: torch's threads would still spin beside the kernels' own
            program.changed_input.fill()
            return [value.numpy() for value in program.execute(refresh=True).values()]

    return run
