# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks.fleet.shared_weights``: measures the memory that a machine's sessions take.

The weights are in memory once for all sessions, or once for each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.own_gateway import own_gateway
from benchmarks.fleet.replayed_robot import Recording, ReplayedRobot
from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.node_configs import ModelConfig

_RULES = FleetRules(standby=False, most_busy=0.95)
_MANY_CORES = 64.0  # that the node claims to have: nothing is computed, and only memory is meant to limit the sessions
_PATIENCE_S = 120.0
_MB = 1e6
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """A process's memory: its own bytes, the bytes of the object store that it has touched, and whether it is ready."""

    own: int
    store: int
    is_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """The memory of so many sessions; ``joined_s`` is how long the last of them took to start."""

    sessions: int
    own: int
    store: int
    joined_s: float


def main(
    model: Annotated[str, typer.Option("--model", "-m", help="What is computed.")] = "torchvision:resnet50",
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Of the model's input.")] = "224x224",
    sessions: Annotated[int, typer.Option(min=1, help="Of as many robots, one after the other.")] = 4,
    store_mb: Annotated[int, typer.Option(help="Ray's object store, 10**6 bytes.")] = 1000,
) -> None:
    """Start sessions of one model, each in a process of its own, and print the memory that they take together."""
    loaded = load_model(model, input_size=parse_size(size))
    config = ModelConfig(model=model, input_size=size)
    found: dict[bool, list[_Row]] = {}
    for share in (False, True):
        with own_gateway(
            loaded, config, _MANY_CORES, _RULES, share_weights=share, store_bytes=store_mb * 10**6
        ) as gateway:
            found[share] = list(_joined(gateway, Identity.of(loaded), sessions))
    Console().print(_table(f"{model} {size}", found[False], found[True]))


def _joined(gateway: FleetGateway, identity: Identity, sessions: int) -> Iterator[_Row]:
    """Let robots join one after the other, and yield what their processes take after each."""
    robots = []
    for number in range(sessions):
        robot = ReplayedRobot(f"replayed{number}", identity, Recording(starts=[]))
        joined_s = robot.join(gateway)
        if robot.ended:
            raise LinkError(f"robot {number + 1} was refused: {robot.ended}")
        robots.append(robot)
        memories = _settled(gateway, [each.session.state[0] for each in robots])
        yield _Row(
            sessions=number + 1, own=sum(each.own for each in memories), store=max(each.store for each in memories),
            joined_s=joined_s,
        )  # fmt: skip
    for robot in robots:
        robot.leave()


def _settled(gateway: FleetGateway, hosts: list[str]) -> list[_Memory]:
    """Wait until the processes have prepared their spare work, and return their memory."""
    ray = import_module("ray")
    deadline = time.monotonic() + _PATIENCE_S
    actors = [ray.get_actor(host) for host in hosts]
    while time.monotonic() < deadline:
        memories: list[_Memory] = ray.get([actor.__ray_call__.remote(_memory) for actor in actors])
        if all(each.is_ready for each in memories):
            return memories
        time.sleep(0.2)
    raise LinkError("processes are not ready in time")


def _memory(actor: Any) -> _Memory:
    """Measure the memory of the calling process; the store is a file in memory that all processes map."""
    own = store = 0
    in_store = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if _MAPPING.match(line):
            in_store = "plasma" in line
        elif line.startswith("Rss:") and in_store:
            store += 1024 * int(line.split()[1])
        elif line.startswith(("Private_Clean:", "Private_Dirty:")) and not in_store:
            own += 1024 * int(line.split()[1])
    return _Memory(own=own, store=store, is_ready=actor._host._spare is not None)


def _table(title: str, apart: list[_Row], shared: list[_Row]) -> Table:
    table = Table(
        "sessions",
        "weights of their own, MB",
        "shared: of processes + store, MB",
        "less by, MB",
        "the last one started after, s: own, shared",
        title=f"{title}: memory",
    )
    for one, other in zip(apart, shared, strict=True):
        less = one.own + one.store - other.own - other.store
        table.add_row(
            f"{one.sessions}", f"{one.own / _MB:.0f}",
            f"{other.own / _MB:.0f} + {other.store / _MB:.0f} = {(other.own + other.store) / _MB:.0f}",
            f"{less / _MB:.0f} ({100 * less / (one.own + one.store):.0f} %)",
            f"{one.joined_s:.1f}, {other.joined_s:.1f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    typer.run(main)
