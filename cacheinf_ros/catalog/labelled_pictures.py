# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Labelled pictures to train heads and specialists on, from built-in scenes or a user's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import CatalogError
from cacheinf_ros.sources import OBJECT_LABELS, Scene, SceneTruth, open_source
from cacheinf_ros.sources.scenes import PHOTOGRAPHS, MotionPreset, SceneConfig

Image = NDArray[np.uint8]
Labels = Mapping[str, tuple[str, ...]]
"""The names of the classes of each attribute."""

PICTURES_PER_SCENE = 4
_FRAMES = 3000  # length of a scene, from which a few frames are taken
_FEWEST_SEED = 1_000_000  # smaller seeds are for the streams of measurements
_HELD_OUT = 4  # one scene, or picture of a class, out of so many
_MOST_OBJECTS = 12
_GAINS = {"dark": (0.15, 0.35), "dim": (0.45, 0.65), "bright": (0.85, 1.15)}
_FEW = 3  # objects


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labelled:
    """A picture with the classes of its attributes.

    Attributes:
        image: uint8 [height, width, 3], BGR.
        classes: the class of each attribute that is known.
        held_out: whether the picture is kept for evaluation and never trained on.
    """

    image: Image
    classes: Mapping[str, int]
    held_out: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shown:
    """What is known about a frame of a scene."""

    scene: SceneConfig
    truth: SceneTruth
    light: str


def _largest(shown: _Shown) -> str:
    found = max(shown.truth.objects, key=lambda o: int(o.mask.sum()), default=None)
    return "none" if found is None else OBJECT_LABELS[found.class_id]


def _crowd(shown: _Shown) -> str:
    count = len(shown.truth.objects)
    return "none" if not count else "few" if count <= _FEW else "many"


_ATTRIBUTES: dict[str, tuple[tuple[str, ...], Callable[[_Shown], str]]] = {
    "photograph": (PHOTOGRAPHS, lambda shown: shown.scene.photograph),
    "object": (("none", *OBJECT_LABELS), _largest),
    "crowd": (("none", "few", "many"), _crowd),
    "light": (tuple(_GAINS), lambda shown: shown.light),
}
SCENE_ATTRIBUTES: Labels = {name: labels for name, (labels, _) in _ATTRIBUTES.items()}
"""What is known about built-in scenes: photograph, class of the largest object, number of objects, light.

Motion is not among the attributes: a single picture does not show it.
"""


def scene_samples(
    scenes: int, per_scene: int, size: tuple[int, int], seed: int = 0, lights: Sequence[str] = tuple(_GAINS)
) -> Iterator[Labelled]:
    """Yield frames of random built-in scenes with all attributes; the scenes take the photographs in turn.

    Args:
        scenes: number of scenes; every fourth of a photograph is held out.
        per_scene: frames taken from each.
        size: (height, width) of the frames.
        lights: the lights from which each frame's is drawn.
    """
    rng = np.random.default_rng(seed)
    for number in range(scenes):
        scene = _random_scene(PHOTOGRAPHS[number % len(PHOTOGRAPHS)], size, rng)
        for index in rng.integers(1, _FRAMES, per_scene):
            light = str(rng.choice(list(lights)))
            shown = _Shown(scene=scene.config, truth=scene.truth(int(index)), light=light)
            image = cv2.convertScaleAbs(scene.frame(int(index)).image, alpha=float(rng.uniform(*_GAINS[light])))
            classes = {name: labels.index(says(shown)) for name, (labels, says) in _ATTRIBUTES.items()}
            held_out = number // len(PHOTOGRAPHS) % _HELD_OUT == _HELD_OUT - 1
            yield Labelled(image=np.asarray(image, np.uint8), classes=classes, held_out=held_out)


def _random_scene(photograph: str, size: tuple[int, int], rng: np.random.Generator) -> Scene:
    return Scene(
        SceneConfig(
            preset=rng.choice(np.array(list(MotionPreset))),
            seed=int(rng.integers(_FEWEST_SEED, 2**31)),
            size=size,
            objects=int(rng.choice([0, int(rng.integers(1, _FEW + 1)), int(rng.integers(_FEW + 1, _MOST_OBJECTS))])),
            noise=float(rng.uniform(0, 5)),
            frames=_FRAMES,
            photograph=photograph,
        )
    )


def folder_labels(path: Path) -> Labels:
    """Return the attributes and their classes in a folder of pictures, PATH/ATTRIBUTE/CLASS/picture.

    Raises:
        CatalogError: there are none, or an attribute has fewer than two classes.
    """
    found = {each.name: tuple(sorted(c.name for c in each.iterdir() if c.is_dir())) for each in _folders(path)}
    if not found:
        raise CatalogError(f"{path} holds no pictures as ATTRIBUTE/CLASS/picture.png")
    for attribute, classes in found.items():
        if len(classes) < 2:
            raise CatalogError(f"{path / attribute}: {len(classes)} classes; an attribute needs folders of two or more")
    return found


def folder_samples(path: Path, attributes: Sequence[str]) -> Iterator[Labelled]:
    """Yield the pictures of :func:`folder_labels`, each with its folder's attribute; every fourth is held out.

    Raises:
        SourceError: a folder of a class holds no pictures, or one that cannot be read.
    """
    labels = folder_labels(path)
    for attribute in attributes:
        for class_id, name in enumerate(labels[attribute]):
            for number, frame in enumerate(open_source(str(path / attribute / name))):
                held_out = number % _HELD_OUT == _HELD_OUT - 1
                yield Labelled(image=frame.image, classes={attribute: class_id}, held_out=held_out)


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir())
    except OSError as error:
        raise CatalogError(f"the pictures in {path} cannot be read: {error}") from None
