# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Random networks as models, a few of which all tests of a run share: exporting one takes longer than most tests."""

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
"""A strategy for the seeds of the networks that the tests of this run share; another run has others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomModel:
    """A random network and its graph; tests share them and change neither.

    Attributes:
        network: the network that was exported.
        unfused: the network's graph before operators are fused.
        graph: the network's graph.
    """

    network: RandomNetwork
    unfused: Graph
    graph: Graph

    def model(self) -> Model:
        """Return the network as a model, which engines take."""
        card = ModelCard(name="random", input_size=self.network.input_size)
        return Model(module=self.network, graph=self.graph, card=card)


@cache
def random_model(seed: int) -> RandomModel:
    """Return the network of a seed, exported once in each process."""
    network = random_network(seed)
    unfused = lowered(network, network.input_size)
    return RandomModel(network=network, unfused=unfused, graph=fuse(unfused))
