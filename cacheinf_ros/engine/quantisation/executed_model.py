# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Turns a model into the one that an engine really runs, for the precision that was asked for."""

from __future__ import annotations

import logging
from dataclasses import replace

import torch

from cacheinf_ros.engine.backends import Backend, choose_backend
from cacheinf_ros.engine.engine_config import EngineConfig, Precision
from cacheinf_ros.engine.float_conversions import computed_in_float32, with_conversions
from cacheinf_ros.engine.half_maps import kept_floats, with_maps_in
from cacheinf_ros.engine.quantisation.embedded import embedded_scales
from cacheinf_ros.engine.quantisation.int8_graph import int8_graph
from cacheinf_ros.engine.quantisation.scales import kept_scales, precision_of
from cacheinf_ros.engine.stem import stem_of
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Graph, Model, Scales
from cacheinf_ros.graph.ir import Conv, Int8Conv

_log = logging.getLogger(__name__)


def executed_model(model: Model, config: EngineConfig, scales: Scales | None = None) -> tuple[Model, Backend]:
    """Return the model as an engine with this configuration runs it, and the backend that runs it.

    A model that has scales (:attr:`Model.scales`) runs in int8 where possible, whatever the configuration says. In
    int8, a file that was quantised uses its own scales; others use the given ones, those of the model, or those that
    ``cacheinf quantise`` kept, in this order. Feature maps have 16 bits where the backend keeps them so.

    Raises:
        EngineError: no engine can run it: the device is missing, or the precision is int8 and the model has no scales.
    """
    backend = choose_backend(config.device, config.threads, precision_of(model, config), model.shared)
    if backend.takes_levels:
        return replace(model, graph=graph_in_levels(model, scales)), backend
    graph = _graph_in_floats(model.graph, backend.floats, mixes=backend.mixes_floats)
    if not backend.mixes_floats and graph is not model.graph and (left := computed_in_float32(graph)):
        _log.info("model %s: in bfloat16, but in float32: %s", model.name, ", ".join(left))
    return replace(model, graph=graph), backend


def executed_graph(model: Model, config: EngineConfig) -> Graph:
    """Return the graph as an engine with this configuration would run it, even if this machine lacks the device.

    Raises:
        EngineError: no engine could run it: the device has no float16, or the model has no scales for int8.
    """
    if precision_of(model, config) is Precision.INT8 and torch.device(config.device).type == "cpu":
        return graph_in_levels(model)
    floats = kept_floats(config.device, config.precision)
    return _graph_in_floats(model.graph, floats, mixes=config.device != "cpu")


def _graph_in_floats(graph: Graph, floats: torch.dtype, *, mixes: bool) -> Graph:
    """Return the graph with maps of this dtype.

    Unless operators take any dtype (``mixes``), its stem stays in float32, and conversions are inserted.
    """
    if mixes or floats is torch.float32:
        return with_maps_in(graph, floats)
    stem = stem_of(graph)
    return with_conversions(with_maps_in(graph, floats, stem), stem)


def graph_in_levels(model: Model, scales: Scales | None = None) -> Graph:
    """Return the graph as engines run it in int8, whether or not this machine can.

    Scales are chosen as in :func:`executed_model`.

    Raises:
        EngineError: the model has no scales.
    """
    graph, embedded = embedded_scales(model.graph)
    scales = embedded or scales or model.scales or kept_scales(model)
    if scales is None:
        raise EngineError(
            f"precision int8 needs scales for model {model.name!r}: make them with `cacheinf quantise MODEL --source "
            "CLIP`, with weights and size as here, on frames that show what the camera will see; or set precision to "
            "float32"
        )
    graph = int8_graph(graph, scales)
    _log.info("model %s: %s", model.name, describe(graph))
    return graph


def describe(graph: Graph) -> str:
    """Describe in words how many convolutions compute in int8, and which ones do not."""
    convolutions = [operator for operator in graph.operators if isinstance(operator, Conv)]
    floats = [operator for operator in convolutions if not isinstance(operator, Int8Conv)]
    whole = sum(graph.flops(operator) for operator in convolutions)
    share = 1 - sum(graph.flops(operator) for operator in floats) / whole if whole else 0.0
    said = f"{len(convolutions) - len(floats)} of {len(convolutions)} convolutions, {share:.1%} of their FLOPs, in int8"
    return f"{said}; in float32: {', '.join(operator.name for operator in floats)}" if floats else said
