# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From a catalog's stored samples to a specialist for the classes that dominate now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cacheinf_ros.catalog.features import trunk_model
from cacheinf_ros.catalog.specialists.dominance import Dominance
from cacheinf_ros.catalog.specialists.retarget import Rejected, Retargeting
from cacheinf_ros.catalog.specialists.specialist import Specialist
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder
from cacheinf_ros.graph import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A specialist, and where the trunk ends whose features it takes."""

    specialist: Specialist
    tensor: str


def load_trunks(folder: SpecialiseFolder, original: Model) -> dict[str, Model]:
    """The small trunks of a catalog's original, by the tensors where they end.

    Raises:
        ModelError: the original has no such tensors.
    """
    return {entry.tensor: trunk_model(original, entry.tensor) for entry in folder.file.trunks}


def make_specialist(
    folder: SpecialiseFolder,
    dominance: Dominance,
    variant: str,
    trunks: Mapping[str, Model],
    cancelled: Callable[[], bool] = lambda: False,
) -> Made | Rejected | None:
    """Try the trunks that are useful for the skew, the cheapest first, until a specialist is worth having.

    It shares nothing with other threads but the trunks, which it only reads.

    Args:
        folder: of the model.
        dominance: what to specialise to.
        variant: that answers what the specialist passes on.
        trunks: all of the folder's, by the tensors where they end: see :func:`load_trunks`.

    Returns:
        None when cancelled.

    Raises:
        CatalogError: the samples cannot be read.
    """
    refused = []
    for entry in folder.trunks_for(dominance.pair, variant):
        samples = folder.samples(entry, trunks[entry.tensor], variant)
        times = {"small_ms": entry.ms, "generic_ms": folder.file.variant_ms[variant]}
        outcome = Retargeting(samples, dominance, **times).run(cancelled)
        if outcome is None:
            return None
        if isinstance(outcome, Specialist):
            return Made(specialist=outcome, tensor=entry.tensor)
        refused.append(f"{entry.tensor}: {outcome.why}")
    return Rejected(why="; ".join(refused))
