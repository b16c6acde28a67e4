# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A camera that mostly sees few of the classes that scenenames knows, and training sets for such a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.bench.shots import Image
from cacheinf_ros.catalog.labelled_pictures import scene_samples
from cacheinf_ros.catalog.specialists.training_set import TrainingSet, training_sets
from cacheinf_ros.graph import Model
from cacheinf_ros.sources import Scene
from cacheinf_ros.sources.scenes import PHOTOGRAPHS, MotionPreset, SceneConfig

_LABEL = "photograph"
_LOOK = 5  # frames of one photograph in a row
_LONGEST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """A frame with its class.

    Attributes:
        label: index into :data:`PHOTOGRAPHS`, the classes of scenenames.
    """

    image: Image
    label: int


class SkewedCamera:
    """A camera that looks at one photograph after the other: an endless stream whose skew can be changed."""

    def __init__(self, size: tuple[int, int], seed: int, preset: MotionPreset = MotionPreset.FIXED) -> None:
        config = SceneConfig(preset=preset, seed=seed, size=size, frames=_LONGEST, objects=3)
        self._scenes = [Scene(config.changed(photograph=name)) for name in PHOTOGRAPHS]
        self._rng = np.random.default_rng(seed)
        self._index = 0

    def look(self, frames: int, chances: Mapping[int, float]) -> Iterator[Seen]:
        """Yield the next frames, whose photographs are drawn with the given chance of each class."""
        labels, chance = list(chances), np.array(list(chances.values()))
        label = labels[0]
        for number in range(frames):
            if number % _LOOK == 0:
                label = int(self._rng.choice(labels, p=chance / chance.sum()))
            self._index += 1
            yield Seen(image=self._scenes[label].frame(self._index).image, label=label)


def chances(dominating: Sequence[int], share: float) -> dict[int, float]:
    """Return the chance of each class: the dominating ones share ``share`` equally, the others share the rest."""
    others = [label for label in range(len(PHOTOGRAPHS)) if label not in dominating]
    return {label: share / len(dominating) for label in dominating} | {
        label: (1 - share) / len(others) for label in others
    }


def learned(generic: Model, trunks: Sequence[Model], scenes: int, seed: int = 0) -> list[TrainingSet]:
    """Make a training set per trunk: built-in scenes, four frames of each, in the light of the stream."""
    samples = scene_samples(scenes, 4, generic.input_size, seed, lights=("bright",))
    return training_sets(generic, trunks, samples, _LABEL)
