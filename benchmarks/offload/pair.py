# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's node and a server's that change from policy to policy while they run.

All policies are measured with the same two processes. Otherwise chance differences between processes (such as where
memory lies) would look like a difference of a tenth between policies that do the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.offload.setting import SLOWER_FOR_ENERGY, Setting, System
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
_LAST_WORDS = 2000  # characters of a process's output that an error quotes


@dataclass(frozen=True, slots=True)
class Pair:
    """A robot and a server that are ready.

    Attributes:
        matcher: the matcher of systems that have no other.
    """

    robots: NodeGroup
    robot: NodeProcess
    server: NodeProcess | None
    recorder: Recorder
    matcher: str

    def use(self, system: System) -> None:
        """Switch both nodes to a system."""
        policy = {"server.policy": system.policy.value, SLOWER_FOR_ENERGY: 0.0, "matcher": self.matcher}
        parameters = {"mode": system.robot.value, **policy, **system.parameters}
        self.recorder.set_parameters(_ROBOT, **parameters)
        if self.server is not None:
            self.recorder.set_parameters(_SERVER, mode=system.server.value)

    def play(self, source: str, frames: int, progress: Callable[[int], None]) -> tuple[Played, Counter[str]]:
        """Play the source once, and return what was played and what the robot's node counted during it.

        ``progress`` is that of :func:`play`.
        """
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
    """Start both nodes, for all systems of a setting, and stop them at the end.

    Args:
        folder: the folder for their logs.
        limited: see :meth:`.Testbed.parameters`.
    """
    # a slow robot needs its own measurements: those of this machine at its full speed would mislead it
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
        yield Pair(robots, robot, server, recorder, setting.matcher)


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
                SLOWER_FOR_ENERGY: 0.0,  # stated, so that it can be changed later
                "server.schedule_s": setting.schedule_s,
                "server.wire_image": setting.wire_image.value,
                "server.deadline_ms": 60_000.0,
                "server.probe_s": 0.2,
            },
        ),
    )


def _first(policies: list[OffloadPolicy]) -> OffloadPolicy:
    """Return the policy to start with: a searched one if there is any, as the search for schedules begins at once."""
    searched = [policy for policy in policies if policy.is_searched]
    return next(iter([*searched, *policies]))
