# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures what the nodes add to matching and computing: from a camera's stamp to the result, with real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cacheinf_ros.bench.timing import summary
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.harness.domains import private_domain
from cacheinf_ros.harness.playback import IMAGE_TOPIC, MAP_TOPIC, RESULT_TOPIC
from cacheinf_ros.nodes.recorder import Recorded, Recorder
from cacheinf_ros.pipeline.polling import wait_until

_START_S = 120.0
_QUIET_S = 3.0
_WARM_UP = 10  # number of frames: the first are computed completely
_PLAIN = {"FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"}  # as a driver has it that knows nothing of this package
_RELIABILITY = f"qos_overrides./{IMAGE_TOPIC}.publisher.reliability"


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraKind:
    """How a camera publishes.

    Attributes:
        name: the name in the report.
        reliability: the publisher's reliability.
        transport: raw or compressed.
        environment: the process's environment variables.
    """

    name: str
    reliability: str
    transport: str
    environment: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What one run published and received; ``matching_ms`` has times by stamp, for maps in messages of their own."""

    results: list[Recorded]
    published: int
    matching_ms: dict[int, float]


CAMERAS = (
    CameraKind(name="raw, best effort", reliability="best_effort", transport="raw", environment=_PLAIN),
    CameraKind(name="raw, reliable", reliability="reliable", transport="raw", environment=_PLAIN),
    CameraKind(name="raw, reliable, config/fastdds.xml", reliability="reliable", transport="raw", environment={}),
    CameraKind(name="JPEG, reliable", reliability="reliable", transport="compressed", environment=_PLAIN),
)
ARRANGEMENTS = {"one process": ("cached_inference",), "two processes": ("matcher", "inference")}


def run_nodes_benchmark(
    *,
    source: str,
    model: str,
    rate: float,
    frames: int,
    threads: int,
    folder: Path,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Play a source as each kind of camera, to nodes in one process and in two.

    Args:
        source: what the camera shows.
        model: the model that the nodes run.
        rate: images per second.
        frames: number of frames of each run.
        threads: threads of the engine.
        folder: folder for the processes' logs.
        progress: called with a line for each run.
    """
    rows: list[dict[str, Any]] = []
    for arrangement, executables in ARRANGEMENTS.items():
        for camera in CAMERAS:
            progress(f"{arrangement}: {camera.name}")
            commands = [_node(executable, camera, model, threads) for executable in executables]
            run = _play(commands, camera, source, rate, frames, folder / f"{len(rows)}")
            rows.append({"nodes": arrangement, "camera": camera.name, **_figures(run)})
    return {"source": Path(source).name, "model": model, "rate": rate, "rows": rows}


def _node(executable: str, camera: CameraKind, model: str, threads: int) -> NodeCommand:
    published = MAP_TOPIC if executable == "matcher" else RESULT_TOPIC
    parameters: dict[str, Any] = {
        "image_topic": IMAGE_TOPIC,
        "image_transport": camera.transport,
        f"qos_overrides./{published}.publisher.durability": "transient_local",  # so that the recorder can subscribe
    }
    if executable != "matcher":
        parameters |= {"model": model, "threads": threads, "result_topic": RESULT_TOPIC}
    return NodeCommand(executable=executable, parameters=parameters)


def _play(
    commands: Iterable[NodeCommand], camera: CameraKind, source: str, rate: float, frames: int, folder: Path
) -> _Run:
    with (
        private_domain() as domain,
        NodeGroup(folder, domain=domain) as group,
        Recorder(domain=domain, result_topic=RESULT_TOPIC) as recorder,
    ):
        nodes = [group.start(command) for command in commands]
        for node in nodes:
            node.wait_ready(_START_S)
        replay = group.start(
            NodeCommand(
                executable="replay",
                parameters={
                    "source": source, "rate": rate, "frames": frames + _WARM_UP, "image_topic": IMAGE_TOPIC,
                    "image_transport": camera.transport, "loop": True, "wait_for_subscribers": len(nodes),
                    "settle_s": 4.0, _RELIABILITY: camera.reliability,
                },
                environment=camera.environment,
            )
        )  # fmt: skip
        wait_until(lambda: replay.exit_code is not None, _START_S + (frames + _WARM_UP) / rate)
        wait_until(lambda: len(recorder.results) >= frames + _WARM_UP, _QUIET_S)
        matching_ms = {stamp: link.matching_ms for stamp, link in recorder.links.items()}
        return _Run(results=list(recorder.results), published=frames + _WARM_UP, matching_ms=matching_ms)


def _figures(run: _Run) -> dict[str, Any]:
    counted = run.results[_WARM_UP:]
    latency = [(result.arrived_ns - result.stamp_ns) / 1e6 for result in counted]
    beside = [
        took - result.compute_ms - run.matching_ms.get(result.stamp_ns, 0.0)
        for took, result in zip(latency, counted, strict=True)
    ]
    return {
        "published": run.published,
        "results": len(run.results),
        "errors": sum(bool(result.error) for result in run.results),
        "latency_ms": summary(latency) if counted else None,
        "beside_ms": summary(beside) if counted else None,
        "reuse_ratio": float(np.mean([result.reuse_ratio for result in counted])) if counted else None,
    }
