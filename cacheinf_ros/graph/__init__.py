# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Load a model by reference or card, as a graph of local and global operators."""

from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.card import (
    TRUSTED,
    VALUE_FIELDS,
    ModelCard,
    Resize,
    absolute_reference,
    is_grey,
    read_card,
)
from cacheinf_ros.graph.dense_operators import COMBINED_BY
from cacheinf_ros.graph.fuse import renamed
from cacheinf_ros.graph.graph_io import decode_graph, encode_graph
from cacheinf_ros.graph.identity import graph_hash, structure_hash
from cacheinf_ros.graph.int8_scales import Scales
from cacheinf_ros.graph.interpret import DeferredGraph, DenseGraph
from cacheinf_ros.graph.ir import Graph
from cacheinf_ros.graph.kept_model import load_kept_model
from cacheinf_ros.graph.known_models import possible_cards, recognised
from cacheinf_ros.graph.load import Model, load_card, load_model, load_module, model_names, model_of, quiet_torch
from cacheinf_ros.graph.shared_values import Shared, SharedValues
from cacheinf_ros.graph.taps import AxisTaps
from cacheinf_ros.graph.weights import operator_weight_bytes, weight_bytes
from cacheinf_ros.graph.weights_origin import WeightsOrigin, has_all_weights
from cacheinf_ros.graph.window import Window, exact_border

__all__ = [
    "COMBINED_BY", "TRUSTED", "VALUE_FIELDS", "Activation", "ActivationKind", "AxisTaps", "DeferredGraph",
    "DenseGraph", "Graph", "Model", "ModelCard", "Resize", "Scales", "Shared", "SharedValues", "WeightsOrigin",
    "Window", "absolute_reference", "decode_graph", "encode_graph", "exact_border", "graph_hash", "has_all_weights",
    "is_grey", "load_card", "load_kept_model", "load_model", "load_module", "model_names", "model_of",
    "operator_weight_bytes", "possible_cards", "quiet_torch", "read_card",
    "recognised", "renamed", "structure_hash", "weight_bytes",
]  # fmt: skip

# The vocabulary: the kinds of operators, and what cards say of outputs.
__all__ += ["decoder_configs", "ir"]
# Graphs that an earlier start has kept.
__all__ += ["graph_cache"]
# What only catalogs and the command line do with a graph; whoever runs one need not load it.
__all__ += ["merge", "receptive_field", "trunk", "write"]
