# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decisions of detectors: boxes, of which those with a score near the threshold count in part, and their objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.accuracy import Detections, box_iou
from cacheinf_ros.engine.decisions.box_consensus import consensus_of_boxes
from cacheinf_ros.engine.decisions.object_parts import parts_of_objects, parts_of_pairs
from cacheinf_ros.engine.decisions.score import Score
from cacheinf_ros.engine.decisions.soft_boxes import SOFT, SoftBoxes, key_points_of, masks_of, matched_boxes
from cacheinf_ros.engine.decisions.task import Outputs
from cacheinf_ros.engine.decoders import Box, Decoded, Selection, decode
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Detector, Grids, Yolo

_ALL = Selection()


class BoxDecisions:
    """Boxes at a score threshold, judged by a soft F1 at IoU 0.5, with the masks and key points of their objects.

    Attributes:
        threshold: the least score of a box that is reported.
        lowest: the least score of a box that counts in part.
    """

    least_right = 0.0  # each box is right or wrong by itself
    tells_motion = True

    def __init__(self, card: ModelCard, selection: Selection = _ALL) -> None:
        """Take the threshold of the card, or that of ``selection``, which gives the boxes that the user gets."""
        decoder = card.decoder
        assert isinstance(decoder, Detector)
        self.threshold = decoder.score_threshold if selection.score_threshold is None else selection.score_threshold
        self.lowest = max(self.threshold - SOFT, 1e-3)
        self._key_points = decoder.key_points if isinstance(decoder, Grids | Yolo) else 0
        self._has_masks = isinstance(decoder, Yolo) and decoder.masks != ""
        self._card = card
        self._selection = replace(selection, score_threshold=self.lowest)

    @property
    def judges_parts(self) -> bool:
        """Whether objects have more than boxes: masks or key points."""
        return self._has_masks or self._key_points > 0

    def read(self, outputs: Outputs, image_size: tuple[int, int], motion: Motion | None = None) -> SoftBoxes:
        """Implement :meth:`Task.read`."""
        return self.of_boxes(self.decoded(outputs, image_size, motion).boxes)

    def decoded(self, outputs: Outputs, image_size: tuple[int, int], motion: Motion | None = None) -> Decoded:
        """Decode the boxes that count at least in part; arguments as for :meth:`Task.read`."""
        return decode(dict(outputs), self._card, image_size, motion, self._selection)

    def reported(self, decoded: Decoded) -> Decoded:
        """Leave out boxes that score too little for the user; boxes that such ones suppressed scored even less."""
        return replace(decoded, boxes=tuple([box for box in decoded.boxes if box.score >= self.threshold]))

    def of_boxes(self, boxes: Sequence[Box]) -> SoftBoxes:
        """Convert boxes that were decoded elsewhere, with scores of at least :attr:`lowest`."""
        found = Detections.of_boxes(boxes)
        weights = np.clip((found.scores - (self.threshold - SOFT)) / (2 * SOFT), 0.0, 1.0)
        return SoftBoxes(
            boxes=found.boxes,
            classes=found.classes,
            weights=weights.astype(np.float32),
            key_points=key_points_of(boxes, self._key_points) if self._key_points else None,
            masks=masks_of(boxes) if self._has_masks else None,
        )

    def presence(self, decision: SoftBoxes) -> float:
        """Implement :meth:`Task.presence`."""
        return float(decision.weights.max(initial=0.0))

    def consensus(self, window: Sequence[SoftBoxes], index: int) -> SoftBoxes:
        """Implement :meth:`Task.consensus`, see :func:`consensus_of_boxes`."""
        return consensus_of_boxes(window, index)

    def score(self, answer: SoftBoxes, consensus: SoftBoxes, before: SoftBoxes | None) -> Score:
        """Return the counts of a soft F1: right is twice the weight of matched boxes, total the weight of all boxes.

        Where the model gives masks or key points, a matched box counts by the share of its parts that are right.
        """
        pairs = matched_boxes(answer, consensus)
        shared = np.array([min(answer.weights[i], consensus.weights[j]) for i, j in pairs], np.float64)
        objects = parts_of_objects(consensus, before)
        parts = parts_of_pairs(answer, consensus, pairs, objects)
        moving = objects.moving_share
        near = _near(answer, consensus, moving)
        for (i, j), share in zip(pairs, parts.moving_share, strict=True):
            near[i] = moving[j] = share
        return Score(
            right=2 * float(shared @ parts.right_share),
            total=float(answer.weights.sum() + consensus.weights.sum()),
            moving_right=2 * float(shared @ parts.moving_right_share),
            moving_total=float(answer.weights @ near + consensus.weights @ moving),
        )


def _near(answer: SoftBoxes, consensus: SoftBoxes, moving: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each box of an answer how much of an object that it touches moves, 0 to 1, the most of several."""
    touches = box_iou(answer.boxes, consensus.boxes) > 0
    return np.asarray((touches * moving).max(axis=1, initial=0.0), np.float64)
