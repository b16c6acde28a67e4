# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures what the real nodes answer to a camera in each way: when, how right by then, and at which cost.

``replay`` publishes at the camera's rate, ``cached_inference`` runs in a process of its own, and results are received
as any subscriber gets them. A frame that the node drops gets the answer to an earlier one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cacheinf_ros.bench.judge import Judge
from cacheinf_ros.bench.node_answers import NodeRun, Reading, heard_answers, used_per_frame
from cacheinf_ros.bench.shots import Shot
from cacheinf_ros.bench.streaming import Emission, camera_times, newest, newest_of_frames
from cacheinf_ros.bench.timing import summary
from cacheinf_ros.config import Value
from cacheinf_ros.energy import EnergyMeter, NoMeter, find_meter, reading
from cacheinf_ros.engine.decisions import BoxDecisions, ClassMaps, has_places
from cacheinf_ros.harness import NodeCommand, NodeGroup, NodeProcess, ProcessError, private_domain
from cacheinf_ros.harness.playback import (
    FIRST_FRAMES,
    FIRST_STAMP_NS,
    IMAGE_TOPIC,
    RESULT_TOPIC,
    SETTLE_S,
    await_backends,
)
from cacheinf_ros.mode import Mode
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.pipeline import wait_until

NODE = "cached_inference"
_CLASS_MAP_TOPIC = f"/{NODE}/class_map"
_START_S = 180.0
_QUIET_S = 3.0
_ROOM = 3.0  # times the dense time between two frames to learn from, so that none is dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWay:
    """A way to run the node.

    Attributes:
        name: its name in the report.
        mode: the mode of the engine.
        every: the camera publishes one of so many frames.
        is_dense: whether nothing may be lost in bounded mode: the fastest dense engine then computes every frame.
    """

    name: str
    mode: Mode
    every: int = 1
    is_dense: bool = False


WAYS = (
    NodeWay(name="dense", mode=Mode.BOUNDED, is_dense=True),
    NodeWay(name="bounded", mode=Mode.BOUNDED),
    NodeWay(name="exact", mode=Mode.EXACT),
    NodeWay(name="every 2", mode=Mode.BOUNDED, every=2, is_dense=True),
    NodeWay(name="every 3", mode=Mode.BOUNDED, every=3, is_dense=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNodes:
    """Plays a source through the nodes, in each way in turn.

    Attributes:
        source: what the camera sees.
        fps: the camera's rate, frames per second.
        warm_up: number of frames before those that count.
        parameters: parameters of the node: model, threads and the like.
        folder: receives the processes' logs.
        ways: the ways to run the node.
        progress: takes a line for each run.
    """

    source: str
    fps: float
    warm_up: int
    parameters: Mapping[str, Value]
    folder: Path
    ways: Sequence[NodeWay] = WAYS
    progress: Callable[[str], None] = field(default=lambda line: None)

    def __call__(self, judge: Judge, shots: Sequence[Shot], dense_ms: float) -> dict[str, Any]:
        """Return the figures of each way, for JSON.

        Args:
            judge: the judge of the frames that count.
            shots: all frames, with those to warm up.
            dense_ms: time of dense execution: bounded mode learns from frames that come more slowly than that.

        Raises:
            ProcessError: a node did not start, or ended, or no result came.
        """
        meter = find_meter()
        rows = []
        for number, way in enumerate(self.ways):
            self.progress(f"through the nodes: {way.name}")
            run = self._run(way, judge, shots, dense_ms, None if isinstance(meter, NoMeter) else meter, number)
            rows.append({"way": way.name, **self._figures(run, judge)})
        return {"rate": self.fps, "rows": rows}

    def _run(
        self,
        way: NodeWay,
        judge: Judge,
        shots: Sequence[Shot],
        dense_ms: float,
        meter: EnergyMeter | None,
        number: int,
    ) -> NodeRun:
        class_maps = isinstance(judge.task, ClassMaps) and has_places(judge.agreed[0])
        with (
            private_domain() as domain,
            NodeGroup(self.folder / str(number), domain=domain) as group,
            Recorder(
                domain=domain, result_topic=RESULT_TOPIC, class_map_topic=_CLASS_MAP_TOPIC if class_maps else ""
            ) as recorder,
        ):
            node = group.start(self._command(way, judge, class_maps=class_maps))
            node.wait_ready(_START_S)
            if way.mode is Mode.BOUNDED:
                self._learn(group, recorder, node, dense_ms)
            recorder.take()
            readings: list[Reading] = []
            process = psutil.Process(node.pid)

            def look() -> None:
                times = process.cpu_times()
                readings.append(
                    Reading(at_ns=time.time_ns(), processor_s=times.user + times.system, joules=reading(meter))
                )

            published = self._play(
                group,
                recorder,
                node,
                {"rate": self.fps, "frames": -(-len(shots) // way.every), "every": way.every},
                look,
            )
            indices = {FIRST_STAMP_NS + shot.stamp_ns: index for index, shot in enumerate(shots)}
            size = (shots[0].image.shape[0], shots[0].image.shape[1])
            return NodeRun(
                published=published,
                camera_ns={indices[stamp]: at_ns for stamp, at_ns in recorder.clock_ns.items() if stamp in indices},
                answers=heard_answers(
                    recorder, judge.task, indices, size, judge.agreed[0].shape if class_maps else None
                ),
                readings=readings,
            )

    def _command(self, way: NodeWay, judge: Judge, *, class_maps: bool) -> NodeCommand:
        asked: dict[str, Value] = {"max_loss": 0.0} if way.is_dense else {}
        if isinstance(judge.task, BoxDecisions):
            asked["score_threshold"] = judge.task.lowest  # boxes near the threshold count in part
        elif not class_maps:
            asked |= {"outputs": "all", "max_output_bytes": 2**31 - 1}
        return NodeCommand(
            executable=NODE,
            parameters={
                **self.parameters,
                **asked,
                "mode": way.mode.value,
                "image_topic": IMAGE_TOPIC,
                "result_topic": RESULT_TOPIC,
                f"qos_overrides./{RESULT_TOPIC}.publisher.durability": "transient_local",  # for the recorder
            },
        )

    def _learn(self, group: NodeGroup, recorder: Recorder, node: NodeProcess, dense_ms: float) -> None:
        """Let bounded mode prepare its dense engine, then see all the frames before those that count."""
        rate = min(self.fps, 1e3 / (_ROOM * dense_ms))
        self._play(group, recorder, node, {"rate": rate, "frames": FIRST_FRAMES})
        await_backends(recorder, node)
        self._play(group, recorder, node, {"rate": rate, "frames": self.warm_up})

    def _play(
        self,
        group: NodeGroup,
        recorder: Recorder,
        node: NodeProcess,
        parameters: Mapping[str, Value],
        look: Callable[[], None] = lambda: None,
    ) -> int:
        """Play until no more results come; returns how many frames were published."""
        replay = group.start(
            NodeCommand(
                executable="replay",
                parameters={
                    "source": self.source, "image_topic": IMAGE_TOPIC, "publish_clock": True,
                    "wait_for_subscribers": 1, "settle_s": SETTLE_S, **parameters,
                },
            )
        )  # fmt: skip

        def has_ended() -> bool:
            look()
            if node.exit_code is not None:
                raise ProcessError(f"{NODE} ended: {node.output.strip()}")
            return replay.exit_code is not None

        wait_until(has_ended, math.inf)
        if replay.exit_code:
            raise ProcessError(f"replay: {replay.output.strip().splitlines()[-1]}")
        seen = -1
        while seen < len(recorder.results):
            seen = len(recorder.results)
            wait_until(lambda seen=seen: len(recorder.results) > seen, _QUIET_S)  # type: ignore[misc]
        look()
        if not recorder.results:
            raise ProcessError(f"{NODE} gave no result: {node.output.strip()}")
        return int(replay.output.rpartition("published ")[2].split()[0])

    def _figures(self, run: NodeRun, judge: Judge) -> dict[str, Any]:
        frames = self.warm_up + len(judge.agreed)
        heard_ms = {index: at_ns / 1e6 for index, at_ns in run.camera_ns.items()}
        times_ms = camera_times(heard_ms, frames, 1e3 / self.fps)
        decisions = {answer.frame: answer.decision for answer in run.answers}
        arrivals = [Emission(at_ms=answer.at_ns / 1e6, frame=answer.frame) for answer in run.answers]
        sources = newest(arrivals, times_ms)[self.warm_up :]
        answered = newest_of_frames(decisions, frames)[self.warm_up :]
        counted = [answer for answer in run.answers if answer.frame >= self.warm_up]
        latency_ms = [answer.at_ns / 1e6 - times_ms[answer.frame] for answer in counted]
        answers, arrived = (
            [None if source is None else decisions[source] for source in chosen] for chosen in (answered, sources)
        )
        relative = [None if source is None else source - self.warm_up for source in sources]
        return {
            "published": run.published,
            "results": len(run.answers),
            "latency_ms": summary(latency_ms) if counted else None,
            "held": round(float(np.mean([answer.held for answer in counted])), 4) if counted else None,
            **used_per_frame(run, times_ms[self.warm_up], times_ms[-1] + 1e3 / self.fps, len(judge.agreed), counted),
            "consensus": judge.consensus(answers),
            **judge.judge(answers, arrived, relative),
        }
