# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures how long it takes to specialise a model: MCDNN's table 3."""

from __future__ import annotations

from typing import Any

from cacheinf_ros.bench.timing import measured
from cacheinf_ros.catalog.build.finetune import TuningConfig, Tutor
from cacheinf_ros.catalog.labelled_pictures import scene_samples
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.retarget import Rejected, retarget
from cacheinf_ros.catalog.specialists.training_set import training_sets
from cacheinf_ros.catalog.trunks import small_trunks
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import load_model

_STEPS = 5
_GENERIC_MS = 1e6  # so slow that any specialist is worth having: here only the time to make one matters


def specialising_times(reference: str = "scenenames", *, scenes: int = 180, seed: int = 3) -> dict[str, Any]:
    """Specialise a classifier to seven of its classes, with every small trunk.

    Args:
        reference: the model, see :func:`load_model`.
        scenes: number of built-in scenes, four frames of each: to learn from, and every fourth of a photograph to judge
            by.
        seed: the scenes' seed.

    Returns:
        seconds of training all of the model's weights for one pass over the samples (full training takes many); and, by
        trunk, of training the output layer alone, and of that with the samples forwarded ahead of time.

    Raises:
        CatalogError: no specialist was made, as there are too few samples.
    """
    model = load_model(reference)
    shown = list(scene_samples(scenes, 4, model.input_size, seed, lights=("bright",)))
    frames = [sample.image for sample in shown]
    config = TuningConfig(steps=_STEPS)
    tutor = Tutor(model, frames[: config.batch], config)
    _, step_ms = measured(tutor.teach, model.module)
    one_pass_s = step_ms / _STEPS / config.batch * len(frames) / 1e3
    found: dict[str, Any] = {reference: {"one_pass_s": one_pass_s, "samples": len(frames)}}
    for trunk in small_trunks(model):
        (samples,), forward_ms = measured(training_sets, model, [trunk], shown, "photograph")
        shares = tuple(0.9 / 7 if i < 7 else 0.1 / (samples.classes - 7) for i in range(samples.classes))
        dominance = Dominance(pair=Pair(n=7, p=0.9), classes=tuple(range(7)), shares=shares)
        outcome, retarget_ms = measured(retarget, samples, dominance, small_ms=1.0, generic_ms=_GENERIC_MS)
        if isinstance(outcome, Rejected):
            raise CatalogError(f"nothing to time, no specialist was made of {trunk.name}: {outcome.why}")
        found[trunk.name] = {"retarget_s": (forward_ms + retarget_ms) / 1e3, "pre_forward_s": retarget_ms / 1e3}
    return found
