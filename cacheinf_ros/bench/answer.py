# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model's answer to one frame, and the decisions and detections that follow from it, computed on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine import decode
from cacheinf_ros.engine.accuracy import Detections
from cacheinf_ros.engine.decisions import ClassMaps, has_places, task_of_model
from cacheinf_ros.engine.following import move_output, shift_output
from cacheinf_ros.engine.frame_placement import picture_size
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Detector

SCORE_THRESHOLD = 0.5
"""The score below which detections are not compared; the threshold in the model's card is for use only."""


class Answer:
    """The outputs of a model for one frame.

    Attributes:
        outputs: the outputs by name, in the model's order.
        image_size: (height, width) of the frame.
        motion: where the frame shows what the outputs are for, in pixels of the model's input.
    """

    def __init__(
        self,
        outputs: Mapping[str, NDArray[Any]],
        card: ModelCard,
        image_size: tuple[int, int],
        motion: Motion | None = None,
    ) -> None:
        self.outputs = dict(outputs)
        self.motion = motion or Motion.none()
        self._card = card
        self.image_size = image_size

    @property
    def values(self) -> list[NDArray[Any]]:
        """The outputs in the model's order."""
        return list(self.outputs.values())

    def copy(self) -> Answer:
        """Copy the answer, its outputs included."""
        return self.changed({name: value.copy() for name, value in self.outputs.items()}, self.motion)

    def changed(self, outputs: Mapping[str, NDArray[Any]], motion: Motion | None = None) -> Answer:
        """Return an answer with other outputs of the same model for a frame of the same size."""
        return Answer(outputs, self._card, self.image_size, motion)

    def shifted(self, shift: tuple[int, int]) -> Answer:
        """Return the answer after everything cached was moved by (dx, dy) pixels of the model's input."""
        return self.changed(
            {n: shift_output(v, shift, picture_size(self._card)) for n, v in self.outputs.items()}, self.motion
        )

    @cached_property
    def in_frame(self) -> Answer:
        """The answer with its maps moved to where the frame shows what they are for.

        Its boxes are those of this answer, which are in the frame's pixels already.
        """
        if self.motion.is_none:
            return self
        return _Moved(self, {n: move_output(v, self.motion, picture_size(self._card)) for n, v in self.outputs.items()})

    @cached_property
    def decisions(self) -> NDArray[np.int64] | None:
        """The class of each pixel, [height, width], or of the frame, [1]; None where mode bounded judges no classes."""
        task = task_of_model(self._card, self.outputs, ())
        if not isinstance(task, ClassMaps):
            return None
        decided = task.read(self.outputs, self.image_size).astype(np.int64)
        return decided if has_places(decided) else decided.reshape(-1)

    @cached_property
    def detections(self) -> Detections | None:
        """The boxes in pixels of the frame; None where the model is not a detector."""
        decoder = self._card.decoder
        if not isinstance(decoder, Detector):
            return None
        card = self._card.model_copy(
            update={"decoder": decoder.model_copy(update={"score_threshold": SCORE_THRESHOLD})}
        )
        return Detections.of_boxes(decode(self.outputs, card, self.image_size, self.motion).boxes)


class _Moved(Answer):
    """An answer with moved outputs, and the detections of the unmoved ones: boxes are moved without resampling."""

    def __init__(self, unmoved: Answer, outputs: Mapping[str, NDArray[Any]]) -> None:
        super().__init__(outputs, unmoved._card, unmoved.image_size)
        self._unmoved = unmoved

    @cached_property
    def detections(self) -> Detections | None:
        """The detections of the unmoved outputs."""
        return self._unmoved.detections
