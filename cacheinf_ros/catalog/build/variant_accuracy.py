# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The accuracy of variants on held-out frames, in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cacheinf_ros.catalog.build.catalog_frames import Sample
from cacheinf_ros.catalog.build.techniques.probe import outputs_of
from cacheinf_ros.engine import Engine, EngineConfig, Preprocessor, decode
from cacheinf_ros.engine.accuracy import Detections, DetectionScore, score_frame
from cacheinf_ros.engine.decisions import BoxDecisions, Score, SoftBoxes, judged_as
from cacheinf_ros.engine.frame_placement import left_picture
from cacheinf_ros.engine.mean_iou import UNJUDGED, check_drawn, count_pixels, mean_iou
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.decoder_configs import Attributes, Detector
from cacheinf_ros.mode import Mode


class Measure(Enum):
    """What accuracy means for a model."""

    F1 = "F1 against the truth"
    """The F1 of detections, at the card's score threshold and an overlap of 0.5."""
    TOP_1 = "top-1 against the truth"
    """The share of frames whose best class is the right one."""
    MEAN_IOU = "mean IoU against the truth"
    """The mean intersection over union of classes, over all pixels whose class is known."""
    AGREEMENT_F1 = "F1 against the original's detections"
    AGREEMENT_PARTS = "F1 against the original's detections, with their masks or key points"
    """The soft F1 of mode bounded, for models that give masks or key points."""
    AGREEMENT = "agreement with the original"
    """The share of frames, or of a class map's pixels, with the original's class; the mean over several attributes."""


class Judge:
    """Measures variants against the right answers to the held-out frames.

    Attributes:
        measure: what :meth:`accuracy` measures.
    """

    def __init__(self, model: Model, samples: Sequence[Sample]) -> None:
        """Compute the right answers: the truth where all frames have it, else those of the original, ``model``.

        Raises:
            CatalogError: the model's answers are neither boxes nor classes, as far as is known.
            SourceError: drawn class maps are none of this model's.
        """
        self._card = model.card
        preprocessor = Preprocessor(model.card)
        self._images = [sample.image for sample in samples]
        self._inputs = [torch.from_numpy(preprocessor.input(sample.image)) for sample in samples]
        self._sizes = [(sample.image.shape[0], sample.image.shape[1]) for sample in samples]
        found = [outputs_of(model.module, image) for image in self._inputs]
        self._names = tuple(name for name, _ in model.graph.outputs)
        self._is_detector = isinstance(model.card.decoder, Detector)
        self._parts: BoxDecisions | None = None
        self._maps: list[NDArray[np.uint8]] = []
        if self._is_detector:
            is_known = all(sample.truth is not None for sample in samples)
            task = BoxDecisions(model.card)
            if task.judges_parts and not is_known:
                self.measure, self._parts = Measure.AGREEMENT_PARTS, task
                self._objects = [self._read(values, size) for values, size in zip(found, self._sizes, strict=True)]
                return
            self.measure = Measure.F1 if is_known else Measure.AGREEMENT_F1
            self._marked = [sample.marked if is_known else None for sample in samples]
            self._boxes = [
                sample.truth if is_known and sample.truth is not None else self._detections(values, size)
                for sample, values, size in zip(samples, found, self._sizes, strict=True)
            ]
            return
        self._check_classes(found[0])
        maps = [left_picture(each.class_map, model.card) for each in samples if each.class_map is not None]
        if len(maps) == len(samples):
            self.measure, self._maps = Measure.MEAN_IOU, maps
            self._check_maps(found[0])
            return
        is_known = all(sample.class_id is not None for sample in samples)
        self.measure = Measure.TOP_1 if is_known else Measure.AGREEMENT
        self._classes = [
            torch.tensor([sample.class_id]) if is_known else self._decisions(values)
            for sample, values in zip(samples, found, strict=True)
        ]

    def accuracy(self, module: nn.Module) -> float:
        """Return the accuracy, in [0, 1], of a network that has the original's outputs."""
        return self._judged([outputs_of(module, image) for image in self._inputs])

    def accuracy_in_int8(self, model: Model, threads: int) -> float:
        """Return the accuracy of a network as the engine computes it in int8, with the model's scales."""
        assert model.scales is not None
        engine = Engine(model, EngineConfig(mode=Mode.DENSE, cache_budget_mb=0.0, threads=threads))
        answers = (engine.run(image, None).outputs.values() for image in self._images)
        return self._judged([[torch.from_numpy(value.copy()) for value in values] for values in answers])

    def _judged(self, found: Sequence[Sequence[torch.Tensor]]) -> float:
        if self._parts is not None:
            objects = zip(found, self._sizes, self._objects, strict=True)
            parts = (self._parts.score(self._read(values, size), right, None) for values, size, right in objects)
            return min(sum(parts, Score()).whole, 1.0)  # sums of shares are rounded
        if self._is_detector:
            answers = (self._detections(values, size) for values, size in zip(found, self._sizes, strict=True))
            scores = (
                score_frame(answer if marked is None else answer.of_classes(marked), boxes)
                for answer, marked, boxes in zip(answers, self._marked, self._boxes, strict=True)
            )
            return sum(scores, DetectionScore()).f1
        if self._maps:
            classes = found[0][0].shape[1]
            drawn = zip(found, self._sizes, self._maps, strict=True)
            counts = [count_pixels(self._map(values, right, size), right, classes) for values, size, right in drawn]
            return mean_iou(np.sum(counts, axis=0))
        pairs = zip(found, self._classes, strict=True)
        return float(np.mean([float((self._decisions(values) == right).float().mean()) for values, right in pairs]))

    def _detections(self, values: Sequence[torch.Tensor], size: tuple[int, int]) -> Detections:
        return Detections.of_boxes(decode(self._outputs(values), self._card, size).boxes)

    def _read(self, values: Sequence[torch.Tensor], size: tuple[int, int]) -> SoftBoxes:
        assert self._parts is not None
        return self._parts.read(self._outputs(values), size)

    def _map(
        self, values: Sequence[torch.Tensor], right: NDArray[np.uint8], size: tuple[int, int]
    ) -> NDArray[np.uint8]:
        """Return the frame's class map, enlarged to the size of the drawn one."""
        class_map = decode(self._outputs(values), self._card, size).class_map
        assert class_map is not None
        return np.asarray(cv2.resize(class_map, right.shape[::-1], interpolation=cv2.INTER_NEAREST_EXACT), np.uint8)

    def _outputs(self, values: Sequence[torch.Tensor]) -> dict[str, NDArray[Any]]:
        return {name: value.numpy() for name, value in zip(self._names, values, strict=True)}

    def _decisions(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the best class, int64, of each vector [1, classes] or of each pixel of [1, classes, h, w]."""
        return torch.stack([value.argmax(1) for value in values])

    def _check_classes(self, values: Sequence[torch.Tensor]) -> None:
        """Refuse outputs of which it is not known that they are scores of classes: nobody may compare their largest."""
        if isinstance(self._card.decoder, Attributes):
            return
        judged = judged_as(self._card, self._outputs(values))
        has_scores = values[0].ndim in (2, 4) and values[0].shape[1] > 1
        is_said = self._card.decoder is not None or bool(self._card.labels)
        if not judged.are_classes or not has_scores or not (is_said or values[0].is_floating_point()):
            shapes = ", ".join(str(tuple(value.shape)) for value in values)
            raise CatalogError(
                f"variants cannot be compared by class, as the model's output {shapes} has no scores that are known to "
                "be those of classes: where they are, say so by labels or a decoder in a model card (docs/models.md)"
            )

    def _check_maps(self, values: Sequence[torch.Tensor]) -> None:
        """Refuse drawn maps of other classes than the model's, and a model that gives no class map."""
        shape = tuple(values[0].shape)
        if len(values) != 1 or len(shape) != 4 or shape[1] > UNJUDGED or shape[2] * shape[3] == 1:
            raise CatalogError(
                f"{self._card.name} gives no map of up to {UNJUDGED} classes to compare with those in labels/: its "
                f"outputs are {', '.join(str(tuple(value.shape)) for value in values)}; move labels/ elsewhere to "
                "compare with the original, or say in a model card what its decoder is"
            )
        check_drawn(self._maps, shape[1], self._card.name)
