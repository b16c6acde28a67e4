# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The frames on which a way lost most, with its answer and that of dense execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.loss import DENSE
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.trace import Still, as_jpeg
from cacheinf_ros.engine.decisions import REPORTED_WEIGHT, SoftBoxes, has_places

Image = NDArray[np.uint8]
_MOST = 4  # frames that are shown
_APART = 5  # frames between two that are shown: neighbours show the same
_QUALITY = 80  # of JPEG
_TINT = 0.5
_GOLDEN = 0.618  # hue step: by the golden ratio, colours stay far apart


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstFrame:
    """A frame with the answers of a way and of dense execution.

    Attributes:
        index: index among the frames.
        loss: the loss on this frame.
        dense, ours: JPEG files of the frame with the answer drawn in.
    """

    index: int
    loss: float
    dense: bytes
    ours: bytes


def worst_frames(run: StreamRun, name: str) -> list[WorstFrame]:
    """Return the frames on which a way lost most, worst first, none near another; fewer where it lost on fewer.

    Those to learn from are left out.
    """
    losses = run.frame_losses(name)
    chosen: list[int] = []
    for index in sorted(range(run.learning, len(losses)), key=lambda index: -losses[index]):
        if losses[index] <= 0 or len(chosen) == _MOST:
            break
        if all(abs(index - other) >= _APART for other in chosen):
            chosen.append(index)
    decisions = run.losses.decisions

    def drawn(way: str, index: int) -> bytes:
        picture = draw_decision(run.stills[index], decisions[way][index], run.labels)
        return as_jpeg(picture, _QUALITY)

    return [
        WorstFrame(index=index, loss=losses[index], dense=drawn(DENSE, index), ours=drawn(name, index))
        for index in chosen
    ]


def draw_decision(still: Still, decision: Any, labels: Sequence[str]) -> Image:
    """Draw what was decided about a frame into it; returns uint8 [height, width, 3].

    Values that nobody can read are not drawn. Of several pictures side by side, decisions are about the left one.
    """
    drawn = still.picture()
    scale = drawn.shape[1] / still.size[1]
    if isinstance(decision, SoftBoxes):
        _draw_boxes(drawn, decision, scale, labels)
    elif isinstance(decision, np.ndarray) and not has_places(decision):
        _write(drawn, class_names(decision, labels), (6, 18), (255, 255, 255))
    elif isinstance(decision, np.ndarray):
        shown = drawn[:, : drawn.shape[1] // still.pictures]
        classes = cv2.resize(decision.astype(np.int16), shown.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        colours = np.array([colour_of(index) for index in range(int(classes.max()) + 1)], np.float32)
        shown[:] = np.asarray((1 - _TINT) * shown + _TINT * colours[classes], np.uint8)
    return drawn


def _draw_boxes(drawn: Image, found: SoftBoxes, scale: float, labels: Sequence[str]) -> None:
    for box, class_id, weight in zip(found.boxes * scale, found.classes, found.weights, strict=True):
        x, y, width, height = (round(float(value)) for value in box)
        colour = colour_of(int(class_id))
        cv2.rectangle(drawn, (x, y), (x + width, y + height), colour, 2 if weight >= REPORTED_WEIGHT else 1)
        if weight >= REPORTED_WEIGHT:
            _write(drawn, class_name(int(class_id), labels), (x, max(12, y - 4)), colour)
    for x, y in np.concatenate([*found.reported.points_seen(), np.zeros((0, 2))]) * scale:
        cv2.circle(drawn, (round(x), round(y)), 2, (255, 255, 255), -1)


def class_names(classes: NDArray[Any], labels: Sequence[str]) -> str:
    """Return the names of a frame's classes, separated by commas."""
    return ", ".join(class_name(int(each), labels) for each in classes.flat)


def class_name(class_id: int, labels: Sequence[str]) -> str:
    """Return the name of a class, or its number where it has none."""
    return labels[class_id] if 0 <= class_id < len(labels) else str(class_id)


def colour_of(class_id: int) -> tuple[int, int, int]:
    """Return the (blue, green, red) of a class, which is the same in every picture."""
    hue = np.array([[[int(180 * (_GOLDEN * class_id % 1.0)), 220, 235]]], np.uint8)
    blue, green, red = (int(value) for value in cv2.cvtColor(hue, cv2.COLOR_HSV2BGR)[0, 0])
    return blue, green, red


def _write(drawn: Image, text: str, place: tuple[int, int], colour: tuple[int, int, int]) -> None:
    for each, thickness in (((0, 0, 0), 3), (colour, 1)):
        cv2.putText(drawn, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, each, thickness, cv2.LINE_AA)
