"""``cacheinf bench offload``: every policy's latency over a link of limited bandwidth, from the real nodes.

The robot's node has a fraction of a processor, the server's what is left. With root they live in network namespaces
with a shaped link between them, otherwise side by side, and each holds up what it sends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.benchmarks.frames import Image, varied_images
from cacheinf_ros.benchmarks.laboratory import Laboratory, open_laboratory
from cacheinf_ros.benchmarks.quality import ErrorScale
from cacheinf_ros.benchmarks.timing import summary
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import Engine, EngineConfig, Mode, matching_for
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes import NodeCommand, NodeGroup
from cacheinf_ros.nodes.domains import reserved_domain
from cacheinf_ros.nodes.playback import RESULT_TOPIC, Played, lossless, params_file, play
from cacheinf_ros.nodes.processes import NodeProcess, ProcessError, wait_until
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.offload import WireImage
from cacheinf_ros.offload.limit import Trace
from cacheinf_ros.schedule import OffloadPolicy
from cacheinf_ros.schedule.energy import PowerModel
from cacheinf_ros.sources import open_source

DENSE = "local_dense"
"""The robot everything, without a cache: what the papers call local."""
JPEG_CACHED = "remote_jpeg_cached"
"""As ``remote_jpeg``, where the server computes every frame from nothing, but the server has our cache."""
SYSTEMS = (DENSE, *(policy.value for policy in OffloadPolicy), JPEG_CACHED)
_ALONE = (DENSE, OffloadPolicy.LOCAL.value)
_NODE = "cached_inference"
_WARM = 10  # frames that do not count: caches are filled, the link is measured
_START_S = 180.0
_LAST_WORDS = 2000  # characters
_UDP = {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
Outputs = list[NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured.

    Attributes:
        model, weights, size: see ``cacheinf bench engine``.
        source: of the frames.
        frames: that count.
        policies: of :data:`SYSTEMS`.
        robot_cores: processors' worth of time for the robot.
        server_threads: of the server's engine.
        schedule_s: for the search of schedules.
        wire_image: how pixels cross; ``remote_jpeg`` always sends JPEG.
        threshold: of matching, dB: blocks at the same place; 100: only identical ones.
    """

    model: str
    source: str
    weights: str = ""
    size: str = ""
    frames: int = 60
    policies: Sequence[str] = SYSTEMS
    robot_cores: float = 0.5
    server_threads: int = 1
    schedule_s: float = 30.0
    wire_image: WireImage = WireImage.PNG
    threshold: float = MatchingConfig().threshold

    def engine(self, **more: Any) -> dict[str, Any]:
        """Parameters of both nodes."""
        model = {"model": self.model, "weights": self.weights, "input_size": self.size}
        matching = matching_for(Mode.EXACT, threshold_db=self.threshold)
        return {**model, "matcher": matching.matcher.value, "threshold": self.threshold, **more}


class Truth:
    """What dense execution returns for the frames, on this machine."""

    def __init__(self, setting: Setting) -> None:
        weights = Path(setting.weights) if setting.weights else None
        model = load_model(setting.model, weights=weights, input_size=parse_size(setting.size))
        engine = Engine(model, EngineConfig(mode=Mode.DENSE))
        images = [frame.image for frame in islice(open_source(setting.source), setting.frames + _WARM)]
        self._outputs = [_outputs(engine, image) for image in images]
        self._scale = ErrorScale(_outputs(engine, image) for image in varied_images(images))

    def error(self, results: Sequence[Outputs]) -> dict[str, float] | None:
        """Of results for these frames, in their order; None where outputs were too large to be sent."""
        pairs = list(zip(results, self._outputs, strict=False))
        if not pairs or any(len(ours) != len(exact) for ours, exact in pairs):
            return None
        errors = [self._scale.error(ours, exact) for ours, exact in pairs]
        return {"mean": float(np.mean(errors)), "max": float(np.max(errors))}


def _outputs(engine: Engine, image: Image) -> Outputs:
    return [value.copy() for value in engine.run(image, None).outputs.values()]


def run_offload_benchmark(
    setting: Setting, links: Mapping[str, Trace], progress: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measure all policies over all links, given by what they are called: a number of Mbit/s, or a trace's name."""
    progress("dense reference")
    truth = Truth(setting)
    found: dict[str, dict[str, Any]] = {name: {} for name in links}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cacheinf_offload")))
        laboratory = stack.enter_context(open_laboratory(setting.robot_cores))
        domain = stack.enter_context(reserved_domain())
        os.environ.update(_UDP)
        for policy in setting.policies:
            names = list(links)[:1] if policy in _ALONE else list(links)
            for number, group in enumerate(laboratory.together(names)):
                limited = laboratory.parameters(group[0])
                with _nodes(setting, policy, laboratory, folder / f"{policy}_{number}", domain, limited) as pair:
                    for name in group:
                        progress(f"{policy}: {name}")
                        with laboratory.link(links[name]):
                            found[name][policy] = pair.figures(setting, truth, links[name])
            for name in links:
                found[name].setdefault(policy, found[names[0]][policy])
    return {
        "model": setting.model,
        "source": setting.source,
        "robot_cores": setting.robot_cores,
        "shaping": laboratory.shaping,
        "processor_limit": laboratory.processor_limit,
        "wire_image": setting.wire_image.value,
        "threshold": setting.threshold,
        "bandwidth": {
            name: {"mbit_s": float(links[name].mbit_s.mean()), "systems": systems} for name, systems in found.items()
        },
    }


@dataclass(frozen=True, slots=True)
class _Pair:
    """A robot and, where its policy needs one, a server, both ready."""

    robot: NodeGroup
    node: NodeProcess
    recorder: Recorder

    def figures(self, setting: Setting, truth: Truth, link: Trace) -> dict[str, Any]:
        """Play the source once."""
        before = self.recorder.counts(_NODE)
        played = play(
            self.robot, self.recorder, source=setting.source, node=_NODE, subscribers=1, rate=1000.0,
            frames=setting.frames + _WARM,
        )  # fmt: skip
        if not played.results:
            last = self.node.output[-_LAST_WORDS:]
            raise ProcessError(f"the robot answered none of {played.published} frames; its last words:\n{last}")
        figures = _figures(played, before, self.recorder.counts(_NODE))
        figures["output_error"] = truth.error([list(result.outputs.values()) for result in played.results])
        if not link.is_constant:
            figures["frames_ms"] = [result.compute_ms for result in played.results]
        return figures


@contextmanager
def _nodes(
    setting: Setting, policy: str, laboratory: Laboratory, folder: Path, domain: int, limited: Mapping[str, str]
) -> Iterator[_Pair]:
    # a slow robot's own measurements: those of this machine at its full speed would mislead it
    own = ("env", f"XDG_CACHE_HOME={folder.parent / 'robot_cache'}")
    with (
        NodeGroup(folder / "server", domain=domain, prefix=laboratory.server_prefix) as servers,
        NodeGroup(folder / "robot", domain=domain, prefix=own) as robot,
        Recorder(domain=domain, result_topic=RESULT_TOPIC) as recorder,
    ):
        if policy not in _ALONE:
            mode = Mode.DENSE if policy == OffloadPolicy.REMOTE_JPEG.value else Mode.EXACT
            parameters = setting.engine(threads=setting.server_threads, mode=mode.value, **limited)
            servers.start(NodeCommand(executable="server", parameters=parameters)).wait_ready(_START_S)
        yield _Pair(robot, _start_robot(robot, setting, policy, limited, laboratory), recorder)


def _start_robot(
    group: NodeGroup, setting: Setting, policy: str, limited: Mapping[str, str], laboratory: Laboratory
) -> NodeProcess:
    dense, offload = policy == DENSE, _offload_policy(policy)
    robot = group.start(
        NodeCommand(
            executable=_NODE,
            params_file=params_file(),
            parameters=lossless(
                **setting.engine(threads=1, mode="dense" if dense else "exact", **limited),
                result_topic=RESULT_TOPIC,
                use_server=not dense,
                offload_policy=offload.value,
                schedule_s=setting.schedule_s,
                wire_image=setting.wire_image.value,
                server_deadline_ms=60_000.0,
                probe_s=0.2,
            ),
        )
    )
    laboratory.limit_processor(robot.pid)
    robot.wait_ready(_START_S)
    if offload.is_searched:
        wait_until(lambda: "schedules are solved" in robot.output, setting.schedule_s + _START_S)
    return robot


def _offload_policy(system: str) -> OffloadPolicy:
    others = {DENSE: OffloadPolicy.LOCAL, JPEG_CACHED: OffloadPolicy.REMOTE_JPEG}
    return others.get(system) or OffloadPolicy(system)


def _figures(played: Played, before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
    results = played.results[_WARM:] or played.results
    latency = [result.compute_ms for result in results]
    frames = max(1, len(played.results))

    def per_frame(name: str) -> float:
        return (after.get(name, 0) - before.get(name, 0)) / frames

    frame_ms, compute_ms = float(np.mean(latency)), per_frame("robot_us") / 1e3
    transmit_ms, receive_ms = per_frame("transmit_us") / 1e3, per_frame("receive_us") / 1e3
    return {
        "latency_ms": summary(latency),
        "transmit_ms": transmit_ms,
        "mb_per_frame": per_frame("bytes_sent") / 1e6,
        "mb_received_per_frame": per_frame("bytes_received") / 1e6,
        "local_share": per_frame("local_permille") / 1e3,
        "where": {place: sum(r.where == place for r in results) for place in sorted({r.where for r in results})},
        "energy_j": PowerModel().joules(frame_ms, compute_ms, transmit_ms, receive_ms),
        "energy_kind": "modelled",
        "errors": sum(bool(result.error) for result in results),
    }
