# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's node and a server's that change from policy to policy while they run.

All policies are measured with the same two processes: what one has by chance (where its memory lies, for one) would
else be a difference of a tenth between policies that do the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.offload.setting import Setting, System
from benchmarks.offload.testbed import Testbed
from cacheinf_ros.engine import Mode
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.harness.playback import RESULT_TOPIC, Played, lossless, params_file, play
from cacheinf_ros.harness.processes import NodeProcess, ProcessError
from cacheinf_ros.nodes.recorder import Recorder
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.pipeline.polling import wait_until

_ROBOT, _SERVER = "cached_inference", "server"
_START_S = 180.0
_LAST_WORDS = 2000  # characters


@dataclass(frozen=True, slots=True)
class Pair:
    """Both ready."""

    robots: NodeGroup
    robot: NodeProcess
    server: NodeProcess | None
    recorder: Recorder

    def use(self, system: System) -> None:
        """Go over to a system."""
        parameters = {"mode": system.robot.value, "server.policy": system.policy.value, **system.parameters}
        self.recorder.set_parameters(_ROBOT, **parameters)
        if self.server is not None:
            self.recorder.set_parameters(_SERVER, mode=system.server.value)

    def play(self, source: str, frames: int, progress: Callable[[int], None]) -> tuple[Played, Counter[str]]:
        """Play the source once; also what the robot's node has counted meanwhile. ``progress``: see :func:`play`."""
        before = self.recorder.counts(_ROBOT)
        played = play(
            self.robots, self.recorder, source=source, node=_ROBOT, subscribers=1, rate=1000.0, frames=frames,
            progress=progress,
        )  # fmt: skip
        if not played.results:
            last = self.robot.output[-_LAST_WORDS:]
            raise ProcessError(f"the robot answered none of {played.published} frames; its last words:\n{last}")
        after = self.recorder.counts(_ROBOT)
        return played, Counter({name: count - before.get(name, 0) for name, count in after.items()})


@contextmanager
def open_pair(
    setting: Setting, testbed: Testbed, folder: Path, domain: int, limited: Mapping[str, str]
) -> Iterator[Pair]:
    """Start both, for all systems of a setting.

    Args:
        folder: for what they log.
        limited: see :meth:`.Testbed.parameters`.
    """
    # a slow robot's own measurements: those of this machine at its full speed would mislead it
    own = ("env", f"XDG_CACHE_HOME={folder.parent / 'robot_cache'}")
    policies = [system.policy for system in setting.systems.values()]
    with (
        NodeGroup(folder / "server", domain=domain, prefix=testbed.server_prefix) as servers,
        NodeGroup(folder / "robot", domain=domain, prefix=own) as robots,
        Recorder(domain=domain, result_topic=RESULT_TOPIC) as recorder,
    ):
        server = None
        if any(policy is not OffloadPolicy.LOCAL for policy in policies):
            parameters = setting.engine(threads=setting.server_threads, mode=Mode.EXACT.value, **limited)
            server = servers.start(NodeCommand(executable=_SERVER, parameters=parameters))
            server.wait_ready(_START_S)
        robot = robots.start(_robot(setting, _first(policies), limited))
        testbed.limit_processor(robot.pid)
        robot.wait_ready(_START_S)
        if any(policy.is_searched for policy in policies):
            wait_until(lambda: "schedules are solved" in robot.output, setting.schedule_s + _START_S)
        yield Pair(robots, robot, server, recorder)


def _robot(setting: Setting, policy: OffloadPolicy, limited: Mapping[str, str]) -> NodeCommand:
    return NodeCommand(
        executable=setting.robot.executable,
        environment=setting.robot.environment,
        params_file=params_file(),
        parameters=lossless(
            **setting.engine(threads=1, mode=Mode.EXACT.value, **limited),
            result_topic=RESULT_TOPIC,
            **{
                "server.use": True,
                "server.policy": policy.value,
                "server.schedule_s": setting.schedule_s,
                "server.wire_image": setting.wire_image.value,
                "server.deadline_ms": 60_000.0,
                "server.probe_s": 0.2,
            },
        ),
    )


def _first(policies: list[OffloadPolicy]) -> OffloadPolicy:
    """The one to start with: the search for schedules begins then."""
    searched = [policy for policy in policies if policy.is_searched]
    return next(iter([*searched, *policies]))
