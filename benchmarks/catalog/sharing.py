# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds which of several models on one stream share operators, as MCDNN's section 5.2.2 does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cacheinf_ros.catalog.heads.shared_models import SharedModel, merge_models, obstacle
from cacheinf_ros.engine import Engine
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sharing:
    """How models on one stream are grouped.

    Attributes:
        groups: merged models that share operators.
        apart: (model, reason) of those that share none.
    """

    groups: tuple[SharedModel, ...]
    apart: tuple[tuple[Model, str], ...]


def find_sharing(models: Sequence[Model]) -> Sharing:
    """Group models that can share operators; a model joins the first group with which it has a convolution in common.

    Args:
        models: models on the same stream, all wanted for every frame: whatever is merged runs together.

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


def use_same_kernels(shared: SharedModel, together: Engine, apart: Engine) -> None:
    """Let a member's own engine compute with the kernels that the shared model's engine chose.

    Each engine chooses by what it measured, and kernels round differently; without this the outputs may differ by
    rounding.
    """
    names, curves = shared.merged.names[apart.model.name], together.cost.curves
    chosen = {name: curves[names[name]].switch_from for name in apart.cost.curves if names[name] in curves}
    apart.program.profile.switch_kernels(chosen)


def _why_apart(model: Model, models: Sequence[Model]) -> str:
    reasons = [obstacle(other, model) for other in models if other is not model]
    return "; ".join(reasons) or "there is no other model"
