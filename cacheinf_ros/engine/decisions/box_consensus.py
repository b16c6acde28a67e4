# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds the objects that neighbouring frames agree on, with their boxes, masks and key points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions.soft_boxes import LINK_IOU, MASK_SIZE, SoftBoxes, class_overlaps, packed_masks

_LEAST_WEIGHT = 0.05  # of a box or key point in the line through those of an object


@dataclass(slots=True, kw_only=True)
class _Track:
    """An object in neighbouring frames; ``last``: its box in the frame nearest to the end that is being extended."""

    class_id: int
    last: NDArray[np.float32]
    times: list[int] = field(default_factory=list)
    boxes: list[NDArray[np.float32]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    key_points: list[NDArray[np.float32]] = field(default_factory=list)
    masks: list[NDArray[np.uint8]] = field(default_factory=list)


def consensus_of_boxes(window: Sequence[SoftBoxes], index: int) -> SoftBoxes:
    """Return the objects that at least half of the frames see.

    Boxes of one class that overlap from frame to frame are one object. Its weight is the median of its weights in all
    frames, 0 where it is not seen; its place, and that of its key points, is that of straight lines through them, at
    the frame; its mask is what at least half of its masks cover.

    Args:
        window: the boxes of each frame.
        index: the frame.
    """
    agreed = []
    for track in _tracks(window, index):
        of_all = np.zeros(len(window), np.float32)
        of_all[track.times] = track.weights
        weight = float(np.median(of_all))
        if weight > 0:
            agreed.append((track, weight, *_place_at(track, index)))
    has_points = any(each.key_points is not None for each in window)
    has_masks = any(each.masks is not None for each in window)
    points = max((each.key_points.shape[1] for each in window if each.key_points is not None), default=0)
    return SoftBoxes(
        boxes=np.array([box for _, _, box, _ in agreed], np.float32).reshape(-1, 4),
        classes=np.array([track.class_id for track, *_ in agreed], np.int64),
        weights=np.array([weight for _, weight, *_ in agreed], np.float32),
        key_points=np.array([each for *_, each in agreed], np.float32).reshape(-1, points, 3) if has_points else None,
        masks=_masks([track for track, *_ in agreed]) if has_masks else None,
    )


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
        if j >= 0 and overlaps[i, j] >= LINK_IOU:
            overlaps[:, j] = -1.0
            track = tracks[j]
        else:
            track = _Track(class_id=int(found.classes[i]), last=found.boxes[i])
            tracks.append(track)
        track.last = found.boxes[i]
        track.times.append(time)
        track.boxes.append(found.boxes[i])
        track.weights.append(float(found.weights[i]))
        if found.key_points is not None:
            track.key_points.append(found.key_points[i])
        if found.masks is not None:
            track.masks.append(found.masks[i])


def _place_at(track: _Track, time: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return an object's box [4] and key points [points, 3] at a time, from straight lines through those it had."""
    boxes, times = np.array(track.boxes, np.float64), np.array(track.times, np.float64)
    points = np.array(track.key_points, np.float64).reshape(len(boxes), -1, 3)
    if len(np.unique(times)) < 3:
        nearest = int(np.abs(times - time).argmin())
        return boxes[nearest].astype(np.float32), points[nearest].astype(np.float32)
    of_boxes = np.square(np.maximum(track.weights, _LEAST_WEIGHT))[:, None]
    of_points = np.square(np.maximum(points[:, :, 2], _LEAST_WEIGHT))  # where a point is not seen its place is a guess
    values = np.concatenate([boxes, points[:, :, :2].reshape(len(boxes), -1)], axis=1)
    weights = of_boxes * np.concatenate([np.ones(boxes.shape), of_points.repeat(2, axis=1)], axis=1)
    place = line_at_zero(times - time, values, weights)
    box = np.concatenate([place[:2], np.maximum(place[2:4], 1.0)])
    scores = np.median(points[:, :, 2:], axis=0)
    return box.astype(np.float32), np.concatenate([place[4:].reshape(-1, 2), scores], axis=1).astype(np.float32)


def _masks(tracks: Sequence[_Track]) -> NDArray[np.uint8]:
    """Return what at least half of each object's masks cover, as in :class:`SoftBoxes`."""
    masks = np.zeros((len(tracks), MASK_SIZE, MASK_SIZE), np.bool_)
    for mask, track in zip(masks, tracks, strict=True):
        given = [each for each in track.masks if each.any()]  # a frame may give none
        if given:
            covered = np.unpackbits(np.array(given), axis=1).sum(axis=0, dtype=np.int64)
            mask[:] = (2 * covered >= len(given)).reshape(mask.shape)
    return packed_masks(masks)


def line_at_zero(
    times: NDArray[np.float64], values: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where least-squares lines through values [n, m] at these times are at time 0, float64 [m].

    Written out, since ``np.polyfit`` takes ten times as long for so few numbers.

    Args:
        weights: float64 [n, m]: how much each squared error counts.
    """
    at = times[:, None]
    moments = [(weights * at**power).sum(axis=0) for power in range(3)]
    sums = [(weights * at**power * values).sum(axis=0) for power in range(2)]
    return np.asarray(
        (moments[2] * sums[0] - moments[1] * sums[1]) / (moments[0] * moments[2] - moments[1] ** 2), np.float64
    )
