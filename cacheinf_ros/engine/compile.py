"""From a model to a program that keeps between frames what the configuration asks for."""

from __future__ import annotations

import torch

from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.config import Cache, EngineConfig
from cacheinf_ros.engine.cost import CostModel, load_or_measure
from cacheinf_ros.engine.kernels import Kernels, choose_kernels
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.merging import load_or_choose
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import Model


@torch.inference_mode()
def compile_program(
    model: Model, config: EngineConfig, kernels: Kernels, caching: Caching | None = None
) -> tuple[Program, CostModel]:
    """Compile a model, with what its operators cost on this machine: known from an earlier start, or measured now.

    Args:
        caching: what to keep between frames; None: what the configuration asks for.

    Raises:
        EngineError: caches are to be merged, and nothing is known of what operators cost.
    """
    caching = caching or chosen_caching(model, config, kernels)
    program = Program(model.graph, kernels, caching, debug_memory=config.debug_memory)
    measured = program if caching == EVERYTHING else None
    return program, _cost(model, config, kernels, measured)


@torch.inference_mode()
def chosen_caching(model: Model, config: EngineConfig, kernels: Kernels | None = None) -> Caching:
    """What the configuration asks to keep; fails as :func:`compile_program`."""
    if config.cache is Cache.ALL and config.cache_budget_mb < 0:
        return EVERYTHING
    layout = lay_out(model.graph)
    if config.cache_budget_mb == 0:
        return Caching.nothing(layout)
    kernels = kernels or choose_kernels(config.device, config.threads, config.precision)
    return Caching(dropped=load_or_choose(layout, _cost(model, config, kernels), model, config))


def _cost(model: Model, config: EngineConfig, kernels: Kernels, program: Program | None = None) -> CostModel:
    """``program``: one that keeps everything, if there is one; measuring takes as much memory."""
    return load_or_measure(lambda: program or Program(model.graph, kernels), model, config)
