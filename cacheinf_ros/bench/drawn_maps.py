# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Class maps that somebody drew for a recording's frames, as a segmenter's decisions are compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cacheinf_ros.bench.shots import Shot
from cacheinf_ros.engine.decisions import ClassMaps, Task
from cacheinf_ros.engine.mean_iou import UNJUDGED, Drawn, check_drawn, drawn_within
from cacheinf_ros.graph import Model


def drawn_maps(shots: Sequence[Shot], task: Task[Any], model: Model) -> list[Drawn | None]:
    """Read the drawn class map of each frame, in the size in which a segmenter's decisions are; None: there is none.

    Raises:
        SourceError: a map cannot be read, or has other classes than the model.
    """
    shape = model.graph.tensors[model.graph.outputs[0][1]].shape
    if not isinstance(task, ClassMaps) or len(shape) < 3 or min(shape[-2:]) == 1:
        return [None] * len(shots)
    maps: list[Drawn | None] = []
    for shot in shots:
        drawn = shot.read_class_map()
        maps.append(None if drawn is None else task.of_map(drawn_within(drawn, model.card, (shape[-2], shape[-1]))))
    has_scores = len(shape) == 4 and shape[1] > 1
    check_drawn([each for each in maps if each is not None], shape[1] if has_scores else UNJUDGED, model.name)
    return maps
