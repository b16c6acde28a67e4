# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model by reference or card -> a graph of local and global operators."""

from cacheinf_ros.graph.card import ModelCard, read_card
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.graph.kept_model import load_kept_model
from cacheinf_ros.graph.load import Model, load_card, load_model, load_module, model_names, model_of
from cacheinf_ros.graph.weights_origin import WeightsOrigin

__all__ = [
    "Graph", "Model", "ModelCard", "WeightsOrigin", "load_card", "load_kept_model", "load_model", "load_module",
    "model_names", "model_of", "read_card",
]  # fmt: skip
