# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decisions of segmenters and classifiers: one class per pixel, or one per frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decisions.score import Score
from cacheinf_ros.engine.decisions.task import Outputs
from cacheinf_ros.engine.decoders.best_class_map import best_class_map
from cacheinf_ros.engine.decoders.given_classes import are_whole, as_classes
from cacheinf_ros.engine.following import move_class_map
from cacheinf_ros.engine.frame_placement import Placement
from cacheinf_ros.graph import Resize

Classes = NDArray[Any]
Size = tuple[int, int]
_NARROW = 256  # classes that fit into a byte


class ClassMaps:
    """The best class of each pixel, [height, width], or of the frame, [1, 1]; or several classes, [1, n]."""

    least_right = 0.0  # each class is right or wrong by itself
    tells_motion = True

    def __init__(
        self,
        output: str,
        input_size: Size,
        *,
        resize: Resize = "stretch",
        most_pixels: int | None = None,
        has_scores: bool = False,
    ) -> None:
        """Take the name of the output with the classes.

        It holds a score per class, [1, classes] or [1, classes, height, width], or classes as integers: of each pixel,
        [1, height, width] or [1, 1, height, width], or a list of them, [n] or [1, n].

        Args:
            resize: how frames are brought to the input's size; the margins of letterboxed ones are not looked at.
            most_pixels: how many pixels of a map are looked at; of larger maps, only every n-th row and column is.
            has_scores: whether integers [1, n] are scores of n classes all the same, as of a quantised network.
        """
        self._output = output
        self._most_pixels = most_pixels
        self._has_scores = has_scores
        self._input_size = input_size
        self._resize = resize

    def read(self, outputs: Outputs, image_size: Size, motion: Motion | None = None) -> Classes:
        """Implement :meth:`Task.read`."""
        values = as_classes(outputs[self._output])
        if is_list(values) and not self._has_scores:
            return values.reshape(1, -1).astype(np.int64)  # a copy, which has no places that could move
        place = Placement.of(image_size, self._input_size, self._resize)
        if motion is not None and not motion.is_none and place.has_margin and values.ndim > 2:
            return self._moved_as_published(values, place, motion)
        if values.ndim == 3:
            narrow = self.of_map(values[0][place.map_content(values.shape[1:])]).astype(np.uint8)  # as users get them
        else:
            maps = values.reshape(values.shape[1], *(values.shape[2:] or (1, 1)))
            rows, columns = place.map_content(maps.shape[1:])
            step = self._step((rows.stop - rows.start) * (columns.stop - columns.start))
            narrow = _best(maps[:, rows, columns][:, ::step, ::step])
        if motion is None or not has_places(narrow):
            return narrow
        return move_class_map(narrow, motion, self._input_size)

    def _moved_as_published(self, values: NDArray[Any], place: Placement, motion: Motion) -> Classes:
        """Move a whole map, margins included, and only then take what shows the frame, which has come from there."""
        whole = values[0].astype(np.uint8) if values.ndim == 3 else _best(values[0])
        moved = move_class_map(whole, motion, self._input_size)
        return self.of_map(moved[place.map_content((moved.shape[0], moved.shape[1]))])

    def of_map(self, classes: Classes) -> Classes:
        """Pick the pixels to look at from a map of classes, [height, width], that was found elsewhere."""
        step = self._step(classes.size)
        return classes[::step, ::step]

    def _step(self, pixels: int) -> int:
        return 1 if self._most_pixels is None else max(1, math.ceil(math.sqrt(pixels / self._most_pixels)))

    def presence(self, decision: Classes) -> float:
        """Implement :meth:`Task.presence`."""
        return 1.0

    def consensus(self, window: Sequence[Classes], index: int) -> Classes:
        """Return for each pixel the class that most frames see; in a tie, the frame's own if it is among them."""
        agreed = window[index].copy()
        differs = np.logical_or.reduce([other != agreed for other in window])
        candidates = np.stack([classes[differs] for classes in window])  # most pixels agree: only the others vote
        own = candidates[index].copy()
        votes = (candidates == own).sum(0, dtype=np.uint8)
        for class_id in np.unique(candidates):
            count = (candidates == class_id).sum(0, dtype=np.uint8)
            more = count > votes
            own[more] = class_id
            votes[more] = count[more]
        agreed[differs] = own
        return agreed

    def score(self, answer: Classes, consensus: Classes, before: Classes | None) -> Score:
        """Count the pixels that agree."""
        right = answer == consensus
        if before is None:
            return Score(right=float(np.count_nonzero(right)), total=float(right.size))
        moving = consensus != before
        return Score(
            right=float(np.count_nonzero(right)),
            total=float(right.size),
            moving_right=float(np.count_nonzero(right & moving)),
            moving_total=float(np.count_nonzero(moving)),
        )


def _best(scores: NDArray[Any]) -> Classes:
    return best_class_map(scores) if len(scores) <= _NARROW else scores.argmax(0).astype(np.int32)


def has_places(decision: Classes) -> bool:
    """Tell whether classes are those of a map's pixels, which move with the picture."""
    return min(decision.shape) > 1


def is_list(values: NDArray[Any]) -> bool:
    """Tell whether an output is a list of whole numbers, [n] or [1, n], as ArgMax and TopK give them."""
    return are_whole(values) and (values.ndim < 2 or (values.ndim == 2 and values.shape[0] == 1))


def shows_classes(values: NDArray[Any]) -> bool:
    """Tell whether an output holds classes.

    These are scores of several classes, [1, classes] or [1, classes, height, width], or whole numbers that are classes
    (:func:`are_given`).
    """
    return are_given(values) or (values.ndim in (2, 4) and values.shape[0] == 1 and values.shape[1] > 1)


def are_given(values: NDArray[Any]) -> bool:
    """Tell whether an output holds whole numbers that are classes: a list, [1, height, width] or [1, 1, height, width].

    That of a count is no class, but to take it for one is only strict: 3 is then as far from 4 as from 9.
    """
    maps = as_classes(values)
    return is_list(values) or (maps.ndim == 3 and maps.shape[0] == 1 and are_whole(maps))
