# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A run to scrub through: small pictures with the answers, and figures over time, drawn by player.js."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.loss import DENSE
from cacheinf_ros.bench.page.worst_frames import class_names, colour_of
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.trace import FrameTrace
from cacheinf_ros.engine.decisions import SoftBoxes, has_places
from cacheinf_ros.pipeline.frame_result import HELD

_MOST_STILLS = 160  # pictures on a page: some 4 MB
_MAP_WIDTH = 160  # pixels, of class maps
_OPACITY = 120  # of class maps, from 0 to 255

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """The data that player.js shows.

    Attributes:
        data: pictures, answers of some ways and figures of each frame, for JSON.
    """

    data: Json


def player_of(run: StreamRun, name: str, worst: Sequence[int] = ()) -> Player:
    """Make a player that shows a way's run beside that of dense execution.

    Args:
        name: name of the way; which blocks are reused is known only for this package's own ways.
        worst: indices of frames to jump to.
    """
    step = math.ceil(len(run.stills) / _MOST_STILLS)
    shown = sorted({*range(0, len(run.stills), step), *worst})
    height, width = run.stills[0].size
    others = [other for other in run.losses.decisions if other not in (name, DENSE)]
    ways = [name, *([DENSE] if name != DENSE else []), *(others if _has_boxes(run) else ())]
    answers = [{"name": way, "frames": _answers(run, way, shown)} for way in ways]
    traces = run.traces.get(name, ())
    return Player(
        data={
            "count": len(run.stills),
            "size": [width, height],
            "labels": list(run.labels),
            "pictures": run.stills[0].pictures,
            "shown": shown,
            "stills": [_uri("jpeg", run.stills[index].jpeg) for index in shown],
            "ways": [way for way in answers if any(answer is not None for answer in way["frames"])],
            "reused": [_reused(traces[index]) for index in shown] if traces else [],
            "modes": [trace.mode for trace in traces] or [HELD if held else "" for held in run.is_held(name)],
            "charts": [chart for chart in _charts(run, name, traces) if chart is not None],
            "worst": sorted(worst),
        }
    )


def _has_boxes(run: StreamRun) -> bool:
    return isinstance(run.losses.decisions[DENSE][0], SoftBoxes)


def _answers(run: StreamRun, name: str, shown: Sequence[int]) -> list[Any]:
    """Return for each shown frame its boxes, a text or the data URI of a class map; None where nobody can read it."""
    return [_answer(run.losses.decisions[name][index], run.labels) for index in shown]


def _answer(decision: Any, labels: Sequence[str]) -> Any:
    if isinstance(decision, SoftBoxes):
        found = decision.reported
        boxes = zip(found.boxes, found.classes.tolist(), found.points_seen(), strict=True)
        return [[*_short(box), class_id, _short(points)] for box, class_id, points in boxes]
    if not isinstance(decision, np.ndarray) or not np.issubdtype(decision.dtype, np.integer):
        return None
    if not has_places(decision):
        return class_names(decision, labels)
    return _class_map(decision)


def _short(values: NDArray[np.float32]) -> list[Any]:
    return np.asarray(values.astype(np.float64).round(1)).tolist()


def _class_map(classes: NDArray[Any]) -> str:
    size = (_MAP_WIDTH, max(1, round(classes.shape[0] * _MAP_WIDTH / classes.shape[1])))
    small = cv2.resize(classes.astype(np.int16), size, interpolation=cv2.INTER_NEAREST)
    colours = np.array([(*colour_of(index), _OPACITY) for index in range(int(small.max()) + 1)], np.uint8)
    done, content = cv2.imencode(".png", colours[small])
    assert done
    return _uri("png", content.tobytes())


def _reused(trace: FrameTrace) -> Json | None:
    """Return the blocks that were reused, eight in a byte; None: none were."""
    found = trace.cache_map
    if found is None or found.is_empty or not trace.reuse_ratio:
        return None
    rows, columns = found.reusable.shape
    bits = base64.b64encode(np.packbits(found.reusable).tobytes()).decode("ascii")
    return {"rows": rows, "columns": columns, "block": found.block_size, "bits": bits}


def _charts(run: StreamRun, name: str, traces: Sequence[FrameTrace]) -> list[Json | None]:
    took = {way: [value or 0.0 for value in run.took_ms[way]] for way in (name, DENSE)}
    times = [_line(way, values) for way, values in took.items()]
    energy = [trace.joules for trace in traces]
    highest = 1.3 * max(float(np.percentile(values, 98)) for values in took.values())
    return [
        _chart("Time per frame", "ms", times, highest=highest),
        _chart(
            "Reuse",
            "%",
            [
                _line("of the picture reused", [100 * trace.reuse_ratio for trace in traces]),
                _line("of the network computed", [100 * trace.active_share for trace in traces]),
            ],
            highest=105.0,
        ),
        _chart(
            "Promise: loss so far",
            "",
            [
                _line("lost, by all dense answers", run.losses_so_far(name)),
                _line("allowed", [trace.asked for trace in traces]),
                _line("lost, as measured while it ran", [trace.measured for trace in traces]),
            ],
        ),
        _chart("Loss of each frame", "", [_line("lost against dense", run.frame_losses(name))]),
        _chart("Energy", "J", [_line("of the machine, until the next frame", energy)]),
    ]


def _line(name: str, values: Sequence[float | None]) -> Json:
    known = [None if value is None or not math.isfinite(value) else round(value, 4) for value in values]
    return {"name": name, "values": known}


def _chart(title: str, unit: str, lines: Sequence[Json], highest: float | None = None) -> Json | None:
    """Make a chart; ``highest``: end of the axis, None: the largest value. Returns None where no line has values."""
    lines = [line for line in lines if any(value is not None for value in line["values"])]
    known = [value for line in lines for value in line["values"] if value is not None]
    if not known:
        return None
    low, high = min(0.0, *known, 0.0), max(known) * 1.05 if highest is None else highest
    return {"title": title, "unit": unit, "lines": lines, "low": low, "high": max(high, low + 1e-6)}


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
