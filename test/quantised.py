# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Random models in int8, with scales found from noise: quick to make, but useless for anything but tests."""

from __future__ import annotations

import numpy as np
from lowered import graph_of
from random_graphs import random_network

from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.quantisation import int8_graph
from cacheinf_ros.engine.quantisation.observed import DenseRuns, observe
from cacheinf_ros.engine.quantisation.ranges import RangeMethod, levels_for
from cacheinf_ros.graph import Model, ModelCard, Scales
from cacheinf_ros.graph.ir import Graph


def scales_of(model: Model, seed: int = 0) -> Scales:
    image = np.random.default_rng(seed).integers(0, 256, (*model.input_size, 3), np.uint8)
    observed = observe(DenseRuns(model, model.graph, choose_backend("cpu", 1)), [image])
    return Scales(levels=levels_for(model.graph, observed, RangeMethod.ENDS))


def random_levels(seed: int) -> Graph:
    """Return the graph of a random network in int8."""
    module = random_network(seed)
    size = module.input_size
    model = Model(module=module, graph=graph_of(module, size), card=ModelCard(name="random", input_size=size))
    return int8_graph(model.graph, scales_of(model))
