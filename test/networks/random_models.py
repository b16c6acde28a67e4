# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Random networks as models. Exporting one takes longer than most tests of it, so the tests of a run share some."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st
from networks.lowered import lowered
from networks.random_graphs import RandomNetwork, random_network

from cacheinf_ros.graph import Model, ModelCard
from cacheinf_ros.graph.fuse import fuse
from cacheinf_ros.graph.ir import Graph

_COUNT = 40

seeds = st.sampled_from(random.SystemRandom().sample(range(10**6), _COUNT))
"""Of the networks that the tests of this run share; another run has others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomModel:
    """A random network and its graph; tests share them and change neither.

    Attributes:
        network: what was exported.
        unfused: its graph as it is before operators are fused.
        graph: its graph.
    """

    network: RandomNetwork
    unfused: Graph
    graph: Graph

    def model(self) -> Model:
        """What an engine takes."""
        card = ModelCard(name="random", input_size=self.network.input_size)
        return Model(module=self.network, graph=self.graph, card=card)


@cache
def random_model(seed: int) -> RandomModel:
    """The network of a seed, exported once in each process."""
    network = random_network(seed)
    unfused = lowered(network, network.input_size)
    return RandomModel(network=network, unfused=unfused, graph=fuse(unfused))
