# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robots whose frames a fleet computes, and a fleet in one process whose machines can be killed with their hosts."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from oracle import assert_result_equals_dense, changed
from sessions import ENGINE, until

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels
from cacheinf_ros.engine import Engine, Outdated, Partition, Side
from cacheinf_ros.errors import CacheinfError, LinkError
from cacheinf_ros.fleet.gateway import Cluster, FleetGateway
from cacheinf_ros.fleet.host import HostSetting, SessionHost
from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import FleetRules, Machine
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, Orders, Place, Refusal
from cacheinf_ros.fleet.relay import RelaySession
from cacheinf_ros.fleet.shared_weights import ModelContent
from cacheinf_ros.fleet.start_error import StartError
from cacheinf_ros.fleet.status import FleetStatus, status_of
from cacheinf_ros.fleet.upkeep import keep_up
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.offload import Identity, OffloadConfig, Packet, RowSession
from cacheinf_ros.pipeline.node_configs import ModelConfig

MODEL = f"{Path(__file__).parent / 'networks' / 'tiny.py'}:tiny"
PERIOD_S = 0.3
START_S = 120.0


class InMemory:
    """A :class:`cacheinf_ros.fleet.shared_weights.ModelStore` in memory."""

    def __init__(self) -> None:
        self.models: dict[str, ModelContent] = {}

    def find(self, key: str) -> ModelContent | None:
        return self.models.get(key)

    def hold(self, key: str, content: ModelContent) -> None:
        content.graph.flags.writeable = content.packed.flags.writeable = False
        self.models.setdefault(key, content)


class OneProcess:
    """A :class:`cacheinf_ros.fleet.gateway.Cluster` whose machines are all in this process."""

    def __init__(self, machines: int, rules: FleetRules | None = None) -> None:
        self.ledger = FleetLedger(rules or FleetRules())
        self.hosts: dict[str, tuple[str, SessionHost | None]] = {}  # None while it starts
        self.started: list[Place] = []
        self._failures: dict[str, str] = {}  # why processes could not start
        self._stores: defaultdict[str, InMemory] = defaultdict(InMemory)  # by machine
        self.shown: Mapping[str, float] = {}
        self._lock = threading.RLock()
        self._alive = [Machine(name=f"machine{i}", cores=4.0, memory_bytes=64e9) for i in range(machines)]
        self.ledger.see(self._alive)

    def admit(self, asked: Asked) -> Place | Elsewhere | Refusal:
        with self._lock:
            return self.ledger.admit(asked, time.monotonic())

    def report(self, report: GatewayReport) -> Orders:
        with self._lock:
            orders = self.ledger.report(report, time.monotonic())
            keep_up(self.ledger, time.monotonic())
            return orders

    def lose_host(self, host: str) -> None:
        with self._lock:
            self.ledger.host_died(host, time.monotonic())

    def end_host(self, host: str, failure: str = "") -> None:
        with self._lock:
            self.ledger.end_host(host, time.monotonic(), failure)

    def leave(self, session: str, gateway: str) -> None:
        with self._lock:
            self.ledger.leave(session, gateway)

    def start(self, place: Place, setting: HostSetting) -> None:
        with self._lock:
            self.started.append(place)
            self.hosts[place.host] = place.machine, None
        threading.Thread(target=self._make, args=(place, setting), daemon=True).start()

    def _make(self, place: Place, setting: HostSetting) -> None:
        try:
            host = SessionHost(setting, store=self._stores[place.machine])
        except CacheinfError as error:
            self._failures[place.host] = str(error)
            return
        with self._lock:
            is_wanted = place.host in self.hosts
            if is_wanted:
                self.hosts[place.host] = place.machine, host
        if not is_wanted:
            host.close()

    def reach(self, host: str) -> Any:
        with self._lock:
            if host not in self.hosts:
                raise LinkError(f"{host} is gone")
            if host in self._failures:
                raise StartError(f"{host} could not start: {self._failures[host]}")
            found = self.hosts[host][1]
            return None if found is None else (found.address, found.key)

    def stop(self, host: str) -> None:
        with self._lock:
            _, stopped = self.hosts.pop(host, ("", None))
        if stopped is not None:
            stopped.close()

    def show(self, shown: Mapping[str, float], gateway: str) -> None:
        self.shown = shown

    def close(self) -> None:
        for host in list(self.hosts):
            self.stop(host)

    def drain(self, machine: str) -> None:
        with self._lock:
            self.ledger.drain(machine)

    def kill(self, machine: str) -> None:
        """End all processes of a machine at once, without a word to anyone."""
        with self._lock:
            dead = [name for name, (where, _) in self.hosts.items() if where == machine]
            self._alive = [each for each in self._alive if each.name != machine]
            self.ledger.see(self._alive)
        for name in dead:
            _, host = self.hosts.pop(name)
            if host is None:
                continue
            host._listener.close()
            for stream in list(host._sessions.values()):  # a stream that ends leaves the dictionary
                stream._end()
            host.close()

    def status(self) -> FleetStatus:
        with self._lock:
            return status_of(self.ledger, time.monotonic())

    def machine_of(self, session: str) -> str:
        with self._lock:
            entry = self.ledger.state.sessions.get(session)
            host = self.ledger.state.hosts.get(entry.host) if entry else None
            return host.machine if host else ""


class Robot:
    """A robot, its camera, and its session at a gateway."""

    def __init__(self, number: int, model: Model, gateway: FleetGateway | None) -> None:
        self.name = f"robot{number}"
        self.engine = Engine(model, ENGINE, with_server=True)
        assert self.engine.shared is not None
        config = OffloadConfig(server_deadline_ms=2000.0, probe_s=0.2)
        self.robot = RowSession(self.name, Identity.of(model), self.engine.shared.space, config, self._to_server)
        self.shared: list[bool] = []
        self.gateway = gateway  # None while there is no gateway
        self._session: RelaySession | None = None
        self._rng = np.random.default_rng(number)
        self._image = self._rng.integers(0, 256, (*model.input_size, 3), np.uint8)
        self._map: CacheMap | None = None
        self._partition = self.engine.shared.space.everything_at(Side.SERVER)

    def frame(self) -> None:
        def choose(outdated: Outdated) -> Partition:
            return self._partition

        result = self.engine.run(self._image, self._map, self.robot.frame(choose))
        assert_result_equals_dense(self.engine, result, self._image)
        assert self.engine.shared is not None
        self.shared.append(self.engine.shared.was_shared)
        self._image, self._map = changed(self._image, 8, 0.1, self._rng)

    def _to_server(self, packet: Packet) -> None:
        if self._session is None or not self._session.is_open:
            if not packet.starts_session or self.gateway is None:
                return
            self._session = self.gateway.session(self.name, self.robot.receive, lambda complaint: None)
            threading.Thread(target=self._session.serve, daemon=True).start()
        self._session.receive(packet)


class Rig:
    """A gateway to a cluster, and robots."""

    def __init__(self, cluster: Cluster, robots: int) -> None:
        self._model = load_model(MODEL)
        self.complaints: list[str] = []
        self.gateway = self._gateway_to(cluster)
        self.robots = [Robot(number, self._model, self.gateway) for number in range(robots)]

    def _gateway_to(self, cluster: Cluster) -> FleetGateway:
        setting = ModelConfig(model=MODEL)

        def make(asked: Identity) -> HostSetting:
            return HostSetting(asked=asked, model=setting, catalogs=CatalogServerConfig(), engine=ENGINE)

        return FleetGateway(cluster, SplitModels(self._model, ()), make, self.complaints.append)

    def restart(self, cluster: Cluster) -> None:
        """Close the gateway with all that it has started, film one frame without it, and start another gateway."""
        for robot in self.robots:
            robot.gateway = None
        self.gateway.close()
        self.film(1)
        self.gateway = self._gateway_to(cluster)
        for robot in self.robots:
            robot.gateway = self.gateway

    def film(self, frames: int, period_s: float = PERIOD_S) -> None:
        """Compute so many frames of every robot at their rate; robots greet in between, as their nodes' timers do."""
        for _ in range(frames):
            end = time.monotonic() + period_s
            for robot in self.robots:
                robot.frame()
            while time.monotonic() < end:
                for robot in self.robots:
                    robot.robot.poll()
                time.sleep(0.02)

    def connect(self) -> None:
        for robot in self.robots:
            until(lambda robot=robot: not robot.robot.complaint, robot.robot.poll, START_S)  # type: ignore[misc]
