# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What is received from a node that answers a camera: its answers as they arrive, and the resources it has used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cacheinf_ros.energy import EnergyKind, PowerModel
from cacheinf_ros.engine.decisions import BoxDecisions, ClassMaps, Task
from cacheinf_ros.harness import ProcessError
from cacheinf_ros.nodes.recorder import Recorded, RecordedMap
from cacheinf_ros.pipeline.frame_result import HELD


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The resources that a node has used so far.

    Attributes:
        at_ns: time of the reading, by :func:`time.time_ns`.
        processor_s: processor time of all its threads, in seconds.
        joules: energy of the whole machine; None without a meter.
    """

    at_ns: int
    processor_s: float
    joules: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeAnswer:
    """An answer as it arrived.

    Attributes:
        frame: index of the frame in the source.
        held: whether the answer is that to an earlier frame.
    """

    frame: int
    stamp_ns: int
    at_ns: int
    decision: Any
    held: bool
    compute_ms: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeRun:
    """What was received in one run.

    Attributes:
        published: number of frames of the camera.
        camera_ns: when the camera had each frame, by index.
        answers: the answers in order of arrival.
        readings: readings over the time of the run.
    """

    published: int
    camera_ns: Mapping[int, int]
    answers: Sequence[NodeAnswer]
    readings: Sequence[Reading]


class Heard(Protocol):
    """A recorder, or anything else that has results and class maps in order of arrival."""

    @property
    def results(self) -> Sequence[Recorded]: ...  # noqa: D102
    @property
    def class_maps(self) -> Sequence[RecordedMap]: ...  # noqa: D102


def heard_answers(
    heard: Heard,
    task: Task[Any],
    indices: Mapping[int, int],
    size: tuple[int, int],
    map_shape: tuple[int, ...] | None = None,
) -> list[NodeAnswer]:
    """Return what was decided, frame by frame; frames with an error have no answer.

    Args:
        task: the task that reads decisions.
        indices: the frames' indices by stamp; results of other frames are left out.
        size: (height, width) of the frames.
        map_shape: shape of class maps as they are judged, where these were recorded; None: outputs are read.

    Raises:
        ProcessError: class maps have another shape.
    """
    results = [result for result in heard.results if not result.error and result.stamp_ns in indices]
    found: list[tuple[Recorded, int, Any]]
    if map_shape is not None and isinstance(task, ClassMaps):
        by_stamp = {result.stamp_ns: result for result in results}
        arrived = [(by_stamp[each.stamp_ns], each) for each in heard.class_maps if each.stamp_ns in by_stamp]
        found = [(result, each.arrived_ns, task.of_map(each.classes)) for result, each in arrived]
        for _, _, classes in found:
            if classes.shape != map_shape:
                raise ProcessError(
                    f"the node publishes class maps of {classes.shape} where {map_shape} is what the model gives for "
                    "these pictures; are both of one version?"
                )
    elif isinstance(task, BoxDecisions):
        found = [(result, result.arrived_ns, task.of_boxes(result.boxes)) for result in results]
    else:
        found = [(result, result.arrived_ns, task.read(result.outputs, size)) for result in results]
    return [
        NodeAnswer(
            frame=indices[result.stamp_ns],
            stamp_ns=result.stamp_ns,
            at_ns=at_ns,
            decision=decision,
            held=result.mode == HELD,
            compute_ms=result.compute_ms,
        )
        for result, at_ns, decision in found
    ]


def used_per_frame(
    run: NodeRun, from_ms: float, to_ms: float, frames: int, counted: Sequence[NodeAnswer]
) -> dict[str, float | str]:
    """Return the node's processor seconds and the joules per frame of the camera, between two times."""
    at_ms = [each.at_ns / 1e6 for each in run.readings]

    def between(values: Sequence[float]) -> float:
        first, last = np.interp([from_ms, to_ms], at_ms, values)
        return float(last - first) / frames

    joules = [each.joules for each in run.readings if each.joules is not None]
    if len(joules) == len(run.readings):
        energy, kind = between(joules), EnergyKind.MEASURED
    else:
        busy_ms = sum(answer.compute_ms for answer in counted) / frames
        energy, kind = PowerModel().joules((to_ms - from_ms) / frames, busy_ms, 0.0, 0.0), EnergyKind.MODELLED
    return {
        "processor_s": round(between([each.processor_s for each in run.readings]), 5),
        "joules": round(energy, 5),
        "energy": kind.value,
    }
