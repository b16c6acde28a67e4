# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compiles a model into a program that keeps between frames what the configuration asks for."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from cacheinf_ros.engine.arena_order import in_smallest_order
from cacheinf_ros.engine.backends import Backend
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.cost import CostModel, load_or_measure
from cacheinf_ros.engine.engine_config import Cache, EngineConfig
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.partition.partition import Side
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.engine.rematerialisation import load_or_choose
from cacheinf_ros.graph import Model

if TYPE_CHECKING:  # the module needs Triton
    from cacheinf_ros.engine.gpu.camera_batch import CameraSeat

_log = logging.getLogger(__name__)


@torch.inference_mode()
def compile_program(
    model: Model,
    config: EngineConfig,
    backend: Backend,
    caching: Caching | None = None,
    side: Side | None = None,
    cameras: int = 1,
) -> tuple[Program, CostModel]:
    """Compile a model, and return its operators' cost on this machine: stored by an earlier start, or measured now.

    Args:
        caching: what to keep between frames; None: what the configuration asks for.
        side: see :class:`Program`. Operators then keep the model's order, so that both machines have the same.
        cameras: how many cameras' frames, each with a program of its own, a GPU computes together; used only where
            ``side`` is None.

    Raises:
        EngineError: caches are to be merged, and nothing is known of what operators cost.
    """
    graph = model.graph
    if caching is None:
        caching = _caching_without_cost(model, config)
    is_shared = cameras > 1 and side is None
    if caching == EVERYTHING and not is_shared:
        program = Program(graph, backend, debug_memory=config.debug_memory, side=side)
        return program, load_or_measure(lambda: program, model, config, backend)
    cost = load_or_measure(lambda: Program(graph, backend), model, config, backend)
    if caching is None:
        caching = _merged(model, config, cost)
    if side is not None:
        caching = replace(caching, dense=False)  # nothing is kept that need not be, at either end
        return Program(graph, backend, caching, debug_memory=config.debug_memory, side=side), cost
    seat = _seat(model, config, backend, caching, cameras) if is_shared else None
    graph = in_smallest_order(graph, caching) if seat is None else seat.batch.graph
    return Program(graph, backend, caching, debug_memory=config.debug_memory, seat=seat), cost


@torch.inference_mode()
def chosen_caching(model: Model, config: EngineConfig) -> Caching:
    """Return what :func:`compile_program` keeps where it is given no ``caching``; raises the same errors."""
    model, backend = executed_model(model, config)
    caching = _caching_without_cost(model, config)
    if caching is not None:
        return caching
    return _merged(model, config, load_or_measure(lambda: Program(model.graph, backend), model, config, backend))


def _caching_without_cost(model: Model, config: EngineConfig) -> Caching | None:
    """Return what the configuration asks to keep; None where that depends on what operators cost."""
    if config.cache is Cache.ALL and config.cache_budget_mb < 0:
        return EVERYTHING
    return Caching.nothing(lay_out(model.graph)) if config.cache_budget_mb == 0 else None


def _seat(model: Model, config: EngineConfig, backend: Backend, caching: Caching, cameras: int) -> CameraSeat | None:
    """Take a seat among the cameras that this model is computed for together; None where the backend cannot do that."""
    try:
        from cacheinf_ros.engine.gpu.camera_batch import seat_of
    except ImportError:  # no Triton: choosing the backend has logged that already
        seat = None
    else:
        seat = seat_of(model, backend, caching, cameras, debug_memory=config.debug_memory)
    if seat is None:
        _log.warning("gpu.cameras %d needs device cuda and Triton: each camera is computed by itself", cameras)
    return seat


def _merged(model: Model, config: EngineConfig, cost: CostModel) -> Caching:
    return Caching(dropped=load_or_choose(lay_out(model.graph), cost, model, config))
