# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Several models on one stream, whose common beginning is run once: MCDNN, section 5.2.2.

What is common is found from the graphs' structure and weights. The models become one with several outputs, so that one
feature cache serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from cacheinf_ros.graph import DenseGraph, Model, ModelCard, WeightsOrigin
from cacheinf_ros.graph.decoder_configs import Attribute, Attributes, ClassVector
from cacheinf_ros.graph.merge import Merged, merge_graphs

_PREPARATION = ("input_size", "pictures", "resize", "channel_order", "scale", "mean", "std")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedModel:
    """Several models merged into one.

    Attributes:
        model: computes the outputs of all members; has a decoder, which reads them all, only if all are classifiers.
        members: the original models, whose cards say how their outputs are read.
        merged: which operators serve which members.
    """

    model: Model
    members: tuple[Model, ...]
    merged: Merged

    def outputs_of(self, member: str, outputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the outputs that the named member would have returned, taken from those of :attr:`model`."""
        prefix = f"{member}/"
        return {name.removeprefix(prefix): value for name, value in outputs.items() if name.startswith(prefix)}


def obstacle(first: Model, second: Model) -> str:
    """Return why two models cannot share anything; "" where they can."""
    for field in _PREPARATION:
        ours, theirs = getattr(first.card, field), getattr(second.card, field)
        if ours != theirs:
            return f"{field} is {theirs}, that of {first.name} is {ours}"
    if in_int8 := next((model for model in (first, second) if model.scales is not None), None):
        return f"{in_int8.name} is computed in int8, by its own scales"
    merged = merge_graphs({"first": first.graph, "second": second.graph})  # the models may have the same name
    if merged.flops == merged.flops_apart:
        return f"it has no leading convolution in common with {first.name}"
    return ""


def merge_models(models: Sequence[Model], name: str = "") -> SharedModel:
    """Merge several models whose images are prepared alike into one.

    Args:
        name: the new model's name; "": the models' names, joined.

    Raises:
        ModelError: their images have different sizes.
    """
    merged = merge_graphs({model.name: model.graph for model in models})
    same = {field: getattr(models[0].card, field) for field in _PREPARATION}
    card = ModelCard(name=name or "+".join(model.name for model in models), decoder=_decoder(models), **same)
    origins = {model.weights_origin for model in models}
    origin = origins.pop() if len(origins) == 1 else WeightsOrigin.UNKNOWN
    model = Model(module=DenseGraph(merged.graph), graph=merged.graph, card=card, weights_origin=origin)
    return SharedModel(model=model, members=tuple(models), merged=merged)


def _decoder(models: Sequence[Model]) -> Attributes | None:
    if not all(isinstance(model.card.decoder, ClassVector) for model in models):
        return None
    outputs = [(model, name) for model in models for name, _ in model.graph.outputs]
    return Attributes(
        attributes=tuple(
            Attribute(name=model.name, output=f"{model.name}/{name}", labels=model.card.labels)
            for model, name in outputs
        )
    )
