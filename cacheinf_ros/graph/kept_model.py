# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Load a model from the graph that an earlier start kept: exporting a network again takes seconds of each start."""

from __future__ import annotations

from pathlib import Path

from cacheinf_ros.disk_cache import digest
from cacheinf_ros.graph.card import ModelCard, is_grey, says_values
from cacheinf_ros.graph.graph_cache import keep, kept_file, kept_graph
from cacheinf_ros.graph.interpret import DeferredGraph
from cacheinf_ros.graph.known_models import recognised
from cacheinf_ros.graph.load import Model, described, load_model
from cacheinf_ros.graph.weights_origin import has_all_weights


def load_kept_model(reference: str, *, weights: Path | None = None, input_size: tuple[int, int] | None = None) -> Model:
    """Load a model as :func:`load_model` does, and from the second time on without exporting the network.

    Only graphs of ONNX files are kept, which describe a network completely. Python code may make another network the
    next time, and other engines need its module.

    Args:
        reference: reference to the model, as for :func:`load_model`, like the other arguments.

    Raises:
        ModelError: where :func:`load_model` raises it.
    """
    card, origin = described(reference, weights, input_size)
    key = _key(card)
    graph = None if key is None else kept_graph(kept_file(key))
    if graph is None:
        model = load_model(reference, weights=weights, input_size=input_size)
        if key is not None and _is_whole(Path(card.factory)):
            keep(model.graph, kept_file(key))
        return model
    height, width = graph.tensors[graph.input].shape[2:]
    card = recognised(card.model_copy(update={"input_size": (height, width)}), graph)
    return Model(module=DeferredGraph(graph), graph=graph, card=card, weights_origin=origin)


def _key(card: ModelCard) -> str | None:
    """Return what the graph depends on, beside this package and torch; None where that is not known."""
    network = Path(card.factory)
    if network.suffix.lower() != ".onnx":
        return None
    stated = ", values stated" if says_values(card) else ""  # some networks are refused otherwise
    fixed = f", inputs {card.fixed_inputs}" if card.fixed_inputs else ""
    grey = ", grey" if is_grey(card) else ""
    values = (card.one_channel_range, card.scale, card.mean, card.std, card.channel_order)
    pictures = f", {card.pictures} pictures, {values}" if card.pictures > 1 else ""
    described = f"size {card.input_size}{stated}{fixed}{grey}{pictures}"
    return f"onnx {_digest(network)}, weights {_digest(card.weights)}, {described}"


def _digest(path: Path | None) -> str:
    """Return the SHA-256 of a file; empty where there is none, which whoever loads it will report."""
    return "" if path is None or not path.is_file() else digest(path)


def _is_whole(network: Path) -> bool:
    """Tell whether an ONNX file has all of its weights in it: other files may change while it stays as it is."""
    import onnx

    return has_all_weights(onnx.load(network, load_external_data=False).graph)
