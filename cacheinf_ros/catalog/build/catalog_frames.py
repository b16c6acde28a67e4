# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The frames that a catalog is built with: some for fine-tuning, others for measuring.

The frames for measuring come with the truth where it is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.config import expanded
from cacheinf_ros.engine.accuracy import Detections
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Centers, ClassVector, DenseMap, Detector
from cacheinf_ros.sources import OBJECT_LABELS, FolderSource, Scene, Source, open_source, place_of, voxel_grid_of
from cacheinf_ros.sources.scenes import PHOTOGRAPHS, MotionPreset

BUILT_IN = "built-in"
"""The source that stands for built-in scenes that suit the model."""
_FIRST_TRAINING_SEED, _FIRST_TEST_SEED = 5_000_000, 200  # nothing else is trained with these seeds
_OBJECTS = 6  # the default of scenes
_CROWD = 16 / (480 * 640)  # objects per pixel: many to learn from, but not so many that they hide each other
_STEP = 97  # distance of the frames taken of a scene: long enough that most things have moved
_NOTES = {".csv", ".json", ".md", ".txt"}  # files beside folders of pictures


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A frame for measuring, with the right answer where it is known.

    Attributes:
        image: uint8 [height, width, 3], BGR.
        truth: the objects in the frame; None: unknown, or the model is no detector.
        marked: the classes of which all objects are in ``truth``; others are not judged. None: all classes.
        class_id: the right one of the model's classes; None: unknown.
        class_map: the right class of each pixel, uint8 [height, width], 255 where nobody knows it; None: unknown.
    """

    image: NDArray[np.uint8]
    truth: Detections | None = None
    marked: tuple[int, ...] | None = None
    class_id: int | None = None
    class_map: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Data:
    """The frames that a catalog is built with.

    Attributes:
        training: frames for fine-tuning, uint8 [height, width, 3] each; empty: nothing is fine-tuned.
        held_out: frames for measuring, none of which is trained on.
        description: what the frames are, for the reader of the catalog.
    """

    training: tuple[NDArray[np.uint8], ...]
    held_out: tuple[Sample, ...]
    description: str


def load_data(card: ModelCard, training: Sequence[str], held_out: Sequence[str], frames: tuple[int, int]) -> Data:
    """Read the frames for fine-tuning and for measuring.

    Args:
        training, held_out: sources as :func:`open_source` takes them, folders of labelled pictures
            (FOLDER/CLASS/picture for a classifier, pictures beside a file in COCO's format for a detector, with the
            classes of the model's card; pictures beside a folder ``labels`` of class maps for a segmenter), or
            :data:`BUILT_IN`; no training source: nothing is fine-tuned.
        frames: number of frames to read from all training sources, and from all held-out sources.

    Raises:
        CatalogError: a source is used for both, there is nothing to measure with, or the model has no such classes.
        SourceError: a source cannot be read.
    """
    places = {place_of(source) for source in training}
    both = [source for source in held_out if source != BUILT_IN and place_of(source) in places]
    if both:
        raise CatalogError(f"{', '.join(both)} cannot be trained on and measured with: give another --held-out")
    learn = _spread(_references(training, card, frames[0], trained=True), card, frames[0], trained=True)
    measure = _spread(_references(held_out, card, frames[1], trained=False), card, frames[1], trained=False)
    if not measure:
        raise CatalogError("there are no frames to measure with: give a source with --held-out")
    return Data(
        training=tuple(sample.image for sample in learn),
        held_out=measure,
        description=f"{len(learn)} frames of {', '.join(training) or 'nothing'} for fine-tuning, "
        f"{len(measure)} of {', '.join(held_out)} held out",
    )


def _references(sources: Sequence[str], card: ModelCard, frames: int, *, trained: bool) -> list[str]:
    found = [source for source in sources if source != BUILT_IN]
    return found + (_built_in(card, frames, trained=trained) if BUILT_IN in sources else [])


def _built_in(card: ModelCard, frames: int, *, trained: bool) -> list[str]:
    """Name scenes that show the model's classes, with all motions in turn: one per frame, at most 60."""
    assert card.input_size is not None
    photographs = card.labels if _knows_photographs(card) else ("",)
    size = "x".join(map(str, card.input_size))
    motions = [preset.value for preset in MotionPreset]
    seed = _FIRST_TRAINING_SEED if trained else _FIRST_TEST_SEED
    gallery = "train" if trained else "test"
    objects = round(_CROWD * math.prod(card.input_size)) if trained else _OBJECTS
    return [
        f"scene:{motions[i % len(motions)]}?seed={seed + i}&size={size}&objects={objects}&gallery={gallery}&frames=1000"
        f"&photograph={photographs[i % len(photographs)]}"
        for i in range(min(frames, 60))
    ]


def _spread(references: Sequence[str], card: ModelCard, frames: int, *, trained: bool) -> tuple[Sample, ...]:
    """Read about as many frames from each source: from the whole length of scenes, the first ones of others."""
    samples: list[Sample] = []
    for number, reference in enumerate(references):
        count = frames * (number + 1) // len(references) - frames * number // len(references)
        folders = _class_folders(Path(expanded(reference)), card)
        if folders:
            samples += _labelled(folders, count)
            continue
        if voxel_grid_of(reference) is not None:
            raise CatalogError(
                f"{reference}: catalogs are not for clouds of points: their variants may take smaller frames"
            )
        source = open_source(reference)
        if isinstance(source, Scene):
            indices = [(i * _STEP) % source.config.frames for i in range(count)]
            samples += [_sample(source, index, card) for index in indices]
        else:
            found = (Sample(image=frame.image) for frame in source) if trained else _recorded(source, card, reference)
            samples += itertools.islice(found, count)
    return tuple(samples)


def _recorded(source: Source, card: ModelCard, reference: str) -> Iterator[Sample]:
    """Yield a recording's frames; of a folder with labels for a detector or segmenter those that have labels."""
    if isinstance(source, FolderSource) and isinstance(card.decoder, Detector) and source.classes():
        nothing = f"{reference}: its labels name none of its pictures; they are compared by file name"
        yield from _at_least_one(_marked(source, card, reference), nothing)
    elif isinstance(source, FolderSource) and isinstance(card.decoder, DenseMap | None) and source.has_class_maps:
        nothing = (
            f"{reference}/labels has no class map of any of its pictures; name a map labels/NAME.png after its picture"
        )
        yield from _at_least_one(_drawn(source), nothing)
    else:
        yield from (Sample(image=frame.image) for frame in source)


def _at_least_one(samples: Iterator[Sample], otherwise: str) -> Iterator[Sample]:
    """Yield the samples; where there are none, raise a :class:`CatalogError` with this text."""
    first = next(samples, None)
    if first is None:
        raise CatalogError(otherwise)
    yield first
    yield from samples


def _marked(source: FolderSource, card: ModelCard, reference: str) -> Iterator[Sample]:
    """Yield the frames in which objects are marked."""
    known = tuple(card.labels.index(name) for name in source.classes() if name in card.labels)
    for frame in source:
        objects = source.objects(frame.index)
        if objects is None:
            continue
        unknown = {each.label for each in objects}.difference(card.labels)
        if unknown or not known:
            names = ", ".join(sorted(unknown) or source.classes())
            has = ", ".join(card.labels[:20]) or "no names of classes: give its card `labels`"
            raise CatalogError(f"{reference} has labels of {names}, which {card.name} has not; it has {has}")
        yield Sample(image=frame.image, truth=Detections.of_objects(objects, card.labels), marked=known)


def _drawn(source: FolderSource) -> Iterator[Sample]:
    """Yield the frames for which class maps were drawn."""
    for frame in source:
        class_map = source.class_map(frame)
        if class_map is not None:
            yield Sample(image=frame.image, class_map=class_map)


def _class_folders(path: Path, card: ModelCard) -> Mapping[int, Path]:
    """Return the folders of labelled pictures by class; empty where the path is anything else.

    Beside the folders there may be notes, and what is hidden.
    """
    if not path.is_dir():
        return {}
    inside = [each for each in sorted(path.iterdir()) if not each.name.startswith(".")]
    folders = {each.name: each for each in inside if each.is_dir()}
    if not folders or not {each.suffix.lower() for each in inside if each.is_file()} <= _NOTES:
        return {}
    if not isinstance(card.decoder, ClassVector):
        raise CatalogError(
            f"{path} has folders of labelled pictures, but {card.name} does not tell classes of pictures"
        )
    unknown = folders.keys() - set(card.labels)
    if unknown:
        raise CatalogError(
            f"{path}: {', '.join(sorted(unknown))}: {card.name} has no such labels; name the folders as its card does"
        )
    return {card.labels.index(name): folder for name, folder in folders.items()}


def _labelled(folders: Mapping[int, Path], count: int) -> Iterator[Sample]:
    """Yield about ``count`` labelled pictures, equally many of each class."""
    each = -(-count // len(folders))
    for class_id, folder in folders.items():
        for frame in itertools.islice(open_source(str(folder)), each):
            yield Sample(image=frame.image, class_id=class_id)


def _sample(scene: Scene, index: int, card: ModelCard) -> Sample:
    image = scene.frame(index).image
    if isinstance(card.decoder, Centers) and card.labels == OBJECT_LABELS:
        return Sample(image=image, truth=Detections.of_truth(scene.truth(index)))
    if scene.config.photograph and _knows_photographs(card):
        return Sample(image=image, class_id=card.labels.index(scene.config.photograph))
    return Sample(image=image)


def _knows_photographs(card: ModelCard) -> bool:
    return isinstance(card.decoder, ClassVector) and card.labels == PHOTOGRAPHS
