# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Class maps that somebody drew for a recording's frames, as a segmenter's decisions are compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cacheinf_ros.bench.shots import Shot
from cacheinf_ros.engine.decisions import ClassMaps, Task
from cacheinf_ros.engine.mean_iou import Drawn, check_drawn, drawn_on
from cacheinf_ros.graph import Model


def drawn_maps(shots: Sequence[Shot], task: Task[Any], model: Model) -> list[Drawn | None]:
    """Return the drawn class map of each frame in the size in which a segmenter's decisions are; None: there is none.

    Raises:
        SourceError: there are maps of other classes than the model's.
    """
    shape = model.graph.tensors[model.graph.outputs[0][1]].shape
    if not isinstance(task, ClassMaps) or len(shape) < 3:
        return [None] * len(shots)
    size = (shape[-2], shape[-1])
    maps = [None if shot.class_map is None else drawn_on(shot.class_map, model.card, size) for shot in shots]
    if len(shape) == 4 and shape[1] > 1:
        check_drawn((each for each in maps if each is not None), shape[1], model.name)
    return [None if each is None else task.of_map(each) for each in maps]
