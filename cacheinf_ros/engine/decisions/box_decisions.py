# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decisions of detectors: boxes, of which those with a score near the threshold count in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.accuracy import DEFAULT_IOU, Detections, box_iou
from cacheinf_ros.engine.decisions.score import Score
from cacheinf_ros.engine.decisions.task import Outputs
from cacheinf_ros.engine.decoders import Box, Decoded, Selection, decode
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Detector

SOFT = 0.1
"""Half of the range of scores around the threshold in which a box counts in part: scores wobble with sensor noise."""
_LINK_IOU = 0.4  # least overlap of an object's boxes in neighbouring frames
_ALL = Selection()
_STILL_IOU = 0.8  # least overlap of the boxes some frames apart of an object that does not move


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftBoxes:
    """Boxes that count in part.

    Attributes:
        boxes: float32 [n, 4], (x, y, width, height) in pixels of the frame.
        classes: int64 [n].
        weights: float32 [n], 0 to 1: how much each counts.
    """

    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    weights: NDArray[np.float32]


@dataclass(slots=True)
class _Track:
    """An object in neighbouring frames; ``last``: its box in the frame nearest to the end that is being extended."""

    class_id: int
    last: NDArray[np.float32]
    times: list[int]
    boxes: list[NDArray[np.float32]]
    weights: list[float]


class BoxDecisions:
    """Boxes at a score threshold, judged by a soft F1 at IoU 0.5.

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
        self._card = card
        self._selection = replace(selection, score_threshold=self.lowest)

    def read(self, outputs: Outputs, image_size: tuple[int, int], motion: Motion | None = None) -> SoftBoxes:
        """Implement :meth:`Task.read`."""
        return self.of_boxes(self.decoded(outputs, image_size, motion).boxes)

    def decoded(self, outputs: Outputs, image_size: tuple[int, int], motion: Motion | None = None) -> Decoded:
        """Decode the boxes that count at least in part; arguments as for :meth:`Task.read`."""
        return decode(dict(outputs), self._card, image_size, motion, self._selection)

    def reported(self, decoded: Decoded) -> Decoded:
        """Leave out boxes that score too little for the user; boxes that such ones suppressed scored even less."""
        return replace(decoded, boxes=tuple(box for box in decoded.boxes if box.score >= self.threshold))

    def of_boxes(self, boxes: Sequence[Box]) -> SoftBoxes:
        """Convert boxes that were decoded elsewhere, with scores of at least :attr:`lowest`."""
        found = Detections.of_boxes(boxes)
        weights = np.clip((found.scores - (self.threshold - SOFT)) / (2 * SOFT), 0.0, 1.0)
        return SoftBoxes(boxes=found.boxes, classes=found.classes, weights=weights.astype(np.float32))

    def presence(self, decision: SoftBoxes) -> float:
        """Implement :meth:`Task.presence`."""
        return float(decision.weights.max(initial=0.0))

    def consensus(self, window: Sequence[SoftBoxes], index: int) -> SoftBoxes:
        """Return the objects that at least half of the frames see.

        Boxes of one class that overlap from frame to frame are one object. Its weight is the median of its weights in
        all frames, 0 where it is not seen; its place is that of a straight line through its boxes, at the frame.
        """
        tracks = _tracks(window, index)
        boxes, classes, weights = [], [], []
        for track in tracks:
            of_all = np.zeros(len(window), np.float32)
            of_all[track.times] = track.weights
            weight = float(np.median(of_all))
            if weight > 0:
                boxes.append(_box_at(track, index))
                classes.append(track.class_id)
                weights.append(weight)
        return SoftBoxes(
            boxes=np.array(boxes, np.float32).reshape(-1, 4),
            classes=np.array(classes, np.int64),
            weights=np.array(weights, np.float32),
        )

    def score(self, answer: SoftBoxes, consensus: SoftBoxes, before: SoftBoxes | None) -> Score:
        """Return the counts of a soft F1: right is twice the weight of matched boxes, total the weight of all boxes."""
        pairs = _matched(answer, consensus)
        shared = np.array([min(answer.weights[i], consensus.weights[j]) for i, j in pairs], np.float32)
        right, total = 2 * float(shared.sum()), float(answer.weights.sum() + consensus.weights.sum())
        if before is None:
            return Score(right=right, total=total)
        moving = ~_still(consensus, before)
        near = _near(answer, consensus, moving)
        matched_moving = np.array([moving[j] for _, j in pairs], np.bool_)
        for i, j in pairs:
            near[i] = moving[j]
        return Score(
            right=right,
            total=total,
            moving_right=2 * float(shared[matched_moving].sum()),
            moving_total=float(answer.weights[near].sum() + consensus.weights[moving].sum()),
        )


def class_overlaps(first: SoftBoxes, second: SoftBoxes) -> NDArray[np.float64]:
    """Compute the intersection over union of boxes, float64 [n, m]; 0 between different classes."""
    overlaps = box_iou(first.boxes, second.boxes)
    overlaps[first.classes[:, None] != second.classes[None, :]] = 0.0
    return overlaps


def _matched(answer: SoftBoxes, consensus: SoftBoxes) -> list[tuple[int, int]]:
    """Pair the boxes of the same object by index, each in at most one pair; those that count most choose first."""
    overlaps, pairs = class_overlaps(answer, consensus), []
    if not overlaps.size:
        return []
    for i in np.argsort(-answer.weights, kind="stable"):
        j = int(overlaps[i].argmax())
        if overlaps[i, j] >= DEFAULT_IOU:
            pairs.append((int(i), j))
            overlaps[:, j] = -1.0
    return pairs


def _still(consensus: SoftBoxes, before: SoftBoxes) -> NDArray[np.bool_]:
    """Tell which objects were at the same place before, bool [n]."""
    overlaps = class_overlaps(consensus, before)
    return overlaps.max(axis=1) >= _STILL_IOU if overlaps.shape[1] else np.zeros(len(overlaps), np.bool_)


def _near(answer: SoftBoxes, consensus: SoftBoxes, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which boxes of an answer touch one of the objects in ``which``, bool [n]."""
    if not which.any() or not len(answer.boxes):
        return np.zeros(len(answer.boxes), np.bool_)
    return np.asarray((box_iou(answer.boxes, consensus.boxes[which]) > 0).any(axis=1))


def _tracks(window: Sequence[SoftBoxes], index: int) -> list[_Track]:
    """Link objects over the frames, from the frame at ``index`` outwards, first ahead and then back."""
    tracks: list[_Track] = []
    order = [*range(index, len(window)), *range(index - 1, -1, -1)]
    for time in order:
        if time == index - 1:
            for track in tracks:
                track.last = track.boxes[0]
        _extend(tracks, window[time], time)
    return tracks


def _extend(tracks: list[_Track], found: SoftBoxes, time: int) -> None:
    known = SoftBoxes(
        boxes=np.array([track.last for track in tracks], np.float32).reshape(-1, 4),
        classes=np.array([track.class_id for track in tracks], np.int64),
        weights=np.ones(len(tracks), np.float32),
    )
    overlaps = class_overlaps(found, known)
    for i in np.argsort(-found.weights, kind="stable"):
        j = int(overlaps[i].argmax()) if len(tracks) and overlaps.shape[1] else -1
        if j >= 0 and overlaps[i, j] >= _LINK_IOU:
            overlaps[:, j] = -1.0
            track = tracks[j]
        else:
            track = _Track(int(found.classes[i]), found.boxes[i], [], [], [])
            tracks.append(track)
        track.last = found.boxes[i]
        track.times.append(time)
        track.boxes.append(found.boxes[i])
        track.weights.append(float(found.weights[i]))


def _box_at(track: _Track, time: int) -> NDArray[np.float32]:
    """Return an object's box at a time, from a straight line through its boxes."""
    boxes, times = np.array(track.boxes, np.float64), np.array(track.times, np.float64)
    if len(np.unique(times)) < 3:
        return np.asarray(track.boxes[int(np.abs(times - time).argmin())], np.float32)
    place = _line_at_zero(times - time, boxes, np.square(np.maximum(track.weights, 0.05)))
    return np.asarray(np.concatenate([place[:2], np.maximum(place[2:], 1.0)]), np.float32)


def _line_at_zero(
    times: NDArray[np.float64], values: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where least-squares lines through values [n, m] at these times are at time 0, float64 [m].

    Written out, since ``np.polyfit`` takes ten times as long for so few numbers.
    """
    moments = [weights @ times**power for power in range(3)]
    sums = [(weights * times**power) @ values for power in range(2)]
    return np.asarray(
        (moments[2] * sums[0] - moments[1] * sums[1]) / (moments[0] * moments[2] - moments[1] ** 2), np.float64
    )
