"""``cacheinf bench offload``: every policy's latency over a link of limited bandwidth, from the real nodes.

The robot's node runs here, with a fraction of a processor; the server's in a network namespace at the other end of a
shaped link, with all of it. Fast DDS between them uses UDP only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cacheinf_ros.benchmarks.limited_cpu import LimitedCpu
from cacheinf_ros.benchmarks.shaped_link import ShapedLink
from cacheinf_ros.benchmarks.timing import summary
from cacheinf_ros.nodes import NodeCommand, NodeGroup
from cacheinf_ros.nodes.playback import RESULT_TOPIC, Played, free_domain, lossless, params_file, play
from cacheinf_ros.nodes.processes import NodeProcess, wait_until
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.offload import WireImage
from cacheinf_ros.schedule import OffloadPolicy
from cacheinf_ros.schedule.energy import PowerModel

DENSE = "local_dense"
"""The robot everything, without a cache: what the papers call local."""
_NODE = "cached_inference"
_WARM = 10  # frames that do not count: caches are filled, the link is measured
_START_S = 180.0
_UDP = {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured.

    Attributes:
        model, weights, size: see ``cacheinf bench engine``.
        source: of the frames.
        frames: that count.
        policies: of :class:`OffloadPolicy`, or :data:`DENSE`.
        robot_cores: processors' worth of time for the robot.
        server_threads: of the server's engine.
        schedule_s: for the search of schedules.
        wire_image: how pixels cross; ``remote_jpeg`` always sends JPEG.
    """

    model: str
    source: str
    weights: str = ""
    size: str = ""
    frames: int = 60
    policies: Sequence[str] = (DENSE, *(policy.value for policy in OffloadPolicy))
    robot_cores: float = 0.5
    server_threads: int = 1
    schedule_s: float = 30.0
    wire_image: WireImage = WireImage.PNG

    def engine(self, **more: Any) -> dict[str, Any]:
        """Parameters of both nodes."""
        return {"model": self.model, "weights": self.weights, "input_size": self.size, **more}


def run_offload_benchmark(
    setting: Setting, bandwidths: Sequence[float], progress: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measure all policies at all bandwidths, in Mbit/s."""
    os.environ.update(_UDP)
    found: dict[str, dict[str, Any]] = {f"{mbit_s:g}": {} for mbit_s in bandwidths}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cacheinf_offload")))
        link = stack.enter_context(ShapedLink(max(bandwidths)))
        cpu = stack.enter_context(LimitedCpu(setting.robot_cores))
        domain = free_domain()
        os.environ.update(_UDP)  # free_domain keeps to this machine
        servers = stack.enter_context(NodeGroup(folder / "server", domain=domain, prefix=link.prefix))
        server = servers.start(
            NodeCommand(executable="server", parameters=setting.engine(threads=setting.server_threads))
        )
        server.wait_ready(_START_S)
        for policy in setting.policies:
            progress(f"{policy}: starting")
            link.limit(max(bandwidths))
            with NodeGroup(folder / policy, domain=domain) as group, _recorder(domain) as recorder:
                robot = _start_robot(group, setting, policy)
                cpu.take(robot.pid)
                uses_link = policy not in (DENSE, OffloadPolicy.LOCAL.value)
                for mbit_s in bandwidths if uses_link else bandwidths[:1]:
                    link.limit(mbit_s)
                    progress(f"{policy}: {mbit_s:g} Mbit/s")
                    before = recorder.counts(_NODE)
                    played = play(
                        group, recorder, source=setting.source, node=_NODE, subscribers=1, rate=1000.0,
                        frames=setting.frames + _WARM,
                    )  # fmt: skip
                    figures = _figures(played, before, recorder.counts(_NODE))
                    for same in [mbit_s] if uses_link else bandwidths:
                        found[f"{same:g}"][policy] = figures
    return {
        "model": setting.model,
        "robot_cores": setting.robot_cores,
        "shaping": "tbf",
        "wire_image": setting.wire_image.value,
        "bandwidth": {mbit_s: {"systems": systems} for mbit_s, systems in found.items()},
    }


def _recorder(domain: int) -> Recorder:
    return Recorder(domain=domain, result_topic=RESULT_TOPIC)


def _start_robot(group: NodeGroup, setting: Setting, policy: str) -> NodeProcess:
    dense = policy == DENSE
    robot = group.start(
        NodeCommand(
            executable=_NODE,
            params_file=params_file(),
            parameters=lossless(
                **setting.engine(threads=1, mode="dense" if dense else "exact"),
                result_topic=RESULT_TOPIC,
                use_server=not dense,
                offload_policy=OffloadPolicy.LOCAL.value if dense else policy,
                schedule_s=setting.schedule_s,
                wire_image=setting.wire_image.value,
                server_deadline_ms=60_000.0,
                probe_s=0.2,
            ),
        )
    )
    robot.wait_ready(_START_S)
    if not dense and OffloadPolicy(policy).is_searched:
        wait_until(lambda: "schedules are solved" in robot.output, setting.schedule_s + _START_S)
    return robot


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
