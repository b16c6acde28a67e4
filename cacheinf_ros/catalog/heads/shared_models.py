# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models on one stream that begin alike run what they have in common once: MCDNN, section 5.2.2.

What is common is found from the graphs' structure and weights. The models become one with several outputs, so that one
feature cache serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from cacheinf_ros.engine import Engine
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, ModelCard, WeightsOrigin
from cacheinf_ros.graph.card import Attribute, Attributes, ClassVector
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.merge import Merged, merge_graphs

_PREPARATION = ("input_size", "channel_order", "scale", "mean", "std")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedModel:
    """Several models as one.

    Attributes:
        model: computes the outputs of all; where all are classifiers its decoder reads them all, else it has none.
        members: the models, by whose cards their outputs are read.
        merged: which operators serve whom.
    """

    model: Model
    members: tuple[Model, ...]
    merged: Merged

    def outputs_of(self, member: str, outputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """What the member of this name would have returned, from the outputs of :attr:`model`."""
        prefix = f"{member}/"
        return {name.removeprefix(prefix): value for name, value in outputs.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sharing:
    """How models on one stream are run.

    Attributes:
        groups: models that share operators.
        apart: (model, why) of those that share none.
    """

    groups: tuple[SharedModel, ...]
    apart: tuple[tuple[Model, str], ...]


def find_sharing(models: Sequence[Model]) -> Sharing:
    """Put together what can be shared; a model joins the first group with which it has a convolution in common.

    Args:
        models: on the same stream, all wanted for every frame: whatever is merged runs together.

    Raises:
        CatalogError: two models have one name.
    """
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1 or "/" in name:
            raise CatalogError(f"outputs are named by their models: {name!r} must be there once, and without a slash")
    groups: list[list[Model]] = []
    for model in models:
        group = next((group for group in groups if not obstacle(group[0], model)), None)
        if group is None:
            groups.append([model])
        else:
            group.append(model)
    alone = [group[0] for group in groups if len(group) == 1]
    return Sharing(
        groups=tuple(merge_models(group) for group in groups if len(group) > 1),
        apart=tuple((model, _why_apart(model, models)) for model in alone),
    )


def obstacle(first: Model, second: Model) -> str:
    """Why two models cannot share anything; "": they can."""
    for field in _PREPARATION:
        ours, theirs = getattr(first.card, field), getattr(second.card, field)
        if ours != theirs:
            return f"{field} is {theirs}, that of {first.name} is {ours}"
    merged = merge_graphs({"first": first.graph, "second": second.graph})  # they may have one name
    if merged.flops == merged.flops_apart:
        return f"it has no leading convolution in common with {first.name}"
    return ""


def merge_models(models: Sequence[Model], name: str = "") -> SharedModel:
    """Make one model of several whose images are prepared alike.

    Args:
        name: of it; "": those of the models.

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


def use_same_kernels(shared: SharedModel, together: Engine, apart: Engine) -> None:
    """Let a member's own engine compute with the kernels that the shared model's engine chose.

    Each engine chooses by what it measured, and kernels round differently: without this outputs may differ by that.
    """
    names, curves = shared.merged.names[apart.model.name], together.cost.curves
    chosen = {name: curves[names[name]].switch_from for name in apart.cost.curves if names[name] in curves}
    apart.program.profile.switch_kernels(chosen)


def _why_apart(model: Model, models: Sequence[Model]) -> str:
    reasons = [obstacle(other, model) for other in models if other is not model]
    return "; ".join(reasons) or "there is no other model"
