"""The inference node's part in sharing frames with a server: session, link, and the schedule of each frame."""

from __future__ import annotations

import os
import secrets
import threading

import numpy as np
from rclpy.node import Node

from cacheinf_ros.engine import Engine, Outdated, Split
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.graph import Model
from cacheinf_ros.msg import SplitPacket
from cacheinf_ros.nodes.configs import ServerTopicsConfig, UseServerConfig
from cacheinf_ros.nodes.conversions import packet_from, packet_message
from cacheinf_ros.nodes.health import Health
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.topics import profile, publish_on, subscribe_to
from cacheinf_ros.offload import Frame, FramePartner, Identity, OffloadConfig, Packet, RobotSession, WireImage
from cacheinf_ros.schedule import Choice, Scheduler, Surroundings, Workload, load_or_solve
from cacheinf_ros.schedule import profile as profile_of
from cacheinf_ros.schedule.energy import Spent

_DEPTH = 200  # packets on their way: a whole frame's rows
_PIXEL_BYTES = {WireImage.PNG: 1.8, WireImage.JPEG: 0.35}  # of a photograph, about
_NICE = 10
_TICK_S = 0.1


class SplitLink:
    """Used by the node's worker thread, but for what arrives and for greeting the server."""

    def __init__(
        self,
        node: Node,
        topics: ServerTopicsConfig,
        use: UseServerConfig,
        config: OffloadConfig,
        model: Model,
        engine: Engine,
        health: Health,
        sender: Sender,
        *,
        slowdown: float,
    ) -> None:
        """``slowdown``: how many times longer this machine takes, at first sight, than it was measured to take."""
        assert engine.shared is not None
        self._policy = use.offload_policy
        self._schedule_s = use.schedule_s
        self._model_name = model.name
        self._slowdown = slowdown
        self._config = config
        self._health = health
        self._sender = sender
        self._logger = node.get_logger()
        self._workload = Workload(engine.program.layout)
        self._at_robot = profile_of(self._workload.names, engine.cost)
        self._scheduler: Scheduler | None = None
        self._choice: Choice | None = None
        self._partner: FramePartner | None = None
        self._shared_choice: tuple[Frame | None, Choice] | None = None  # of the last frame that was shared
        self._said = ""
        name = f"robot_{secrets.token_hex(4)}"
        self._packets = publish_on(node, SplitPacket, topics.share_topic, profile(_DEPTH))
        identity = Identity.of(model)
        self.session = RobotSession(name, identity, engine.shared.splitting, config, self._send)
        self._answers = subscribe_to(node, SplitPacket, f"{topics.shared_topic}/{name}", self._receive, profile(_DEPTH))
        self._timer = node.create_timer(min(_TICK_S, config.probe_s), self._tick)

    @property
    def uses_cache(self) -> bool:
        """Whether the policy makes use of earlier frames."""
        return self._policy.is_cached

    def partner(self) -> FramePartner | None:
        """The server, for one frame; None: it is computed here."""
        self._choice = self._partner = None
        if self._scheduler is not None:
            self._partner = self.session.frame(self._choose)
        return self._partner

    def computed(self, *, was_shared: bool, took_ms: float) -> Spent:
        """Take note of what became of a frame. Returns the robot's part in it."""
        self._health.count("shared" if was_shared else "alone")
        choice, scheduler, partner = self._choice, self._scheduler, self._partner
        waited_ms = partner.waited_ms if partner is not None else 0.0
        robot_ms = took_ms - waited_ms
        self._health.count("robot_us", round(1e3 * robot_ms))
        self._health.count("local_permille", round(1e3 * choice.local_share) if choice and was_shared else 1000)
        is_as_chosen = choice is not None and was_shared == (choice.split is not None)
        if scheduler is not None and not is_as_chosen:
            scheduler.unsettle()
        if choice is None or scheduler is None or partner is None:
            return Spent(compute_ms=robot_ms)
        transmit_ms = partner.bytes_sent / self.session.up.bytes_per_ms
        receive_ms = partner.bytes_received / self.session.down.bytes_per_ms
        self._health.count("bytes_sent", partner.bytes_sent)
        self._health.count("bytes_received", partner.bytes_received)
        self._health.count("transmit_us", round(1e3 * transmit_ms))
        self._health.count("receive_us", round(1e3 * receive_ms))
        if is_as_chosen:
            scheduler.observe_robot(choice, robot_ms)
        if was_shared:
            self._shared_choice = partner.frame, choice
        self._logger.debug(
            f"{'shared' if was_shared else 'alone'}: {took_ms:.1f} ms, {waited_ms:.1f} of them waiting, "
            f"{choice.predicted_ms:.1f} predicted{'' if choice.is_settled else ' (unsettled)'}; local share "
            f"{choice.local_share:.2f}, changed {choice.changed:.3f}; bytes {partner.bytes_sent} up, "
            f"{partner.bytes_received} down; link {self.session.up}; {scheduler.state}"
        )
        self._health.note("link_mbit_s", f"{self.session.up.mbit_s:.1f}")
        self._health.note("link_delay_ms", f"{self.session.up.delay_ms:.2f}")
        self._health.note("local_share", f"{choice.local_share:.2f}")
        self._health.note("predicted_ms", f"{choice.predicted_ms:.1f}")
        return Spent(compute_ms=robot_ms, transmit_ms=transmit_ms, receive_ms=receive_ms)

    def _tick(self) -> None:
        """Greet the server where there is none, also while no frames come."""
        self.session.poll()
        welcome = self.session.welcome
        if welcome is not None and self._scheduler is None:
            self._scheduler = self._prepare(np.array(welcome.profile, np.float64))
        self._say(self.session.complaint)

    def _choose(self, outdated: Outdated) -> Split | None:
        assert self._scheduler is not None
        self._hear_of_server(self._scheduler)
        up = self.session.up
        self._choice = self._scheduler.choose(self._policy, up.mbit_s, up.delay_ms, outdated)
        return self._choice.split

    def _hear_of_server(self, scheduler: Scheduler) -> None:
        """The server says what a frame took when that has ended: with the next one it is known."""
        served, shared = self.session.served, self._shared_choice
        if served is not None and shared is not None and served[0] == shared[0]:
            scheduler.observe_server(shared[1], served[1])
            self._shared_choice = None

    def _prepare(self, at_server: np.ndarray) -> Scheduler:
        surroundings = Surroundings(
            at_robot=self._at_robot,
            at_server=at_server,
            value_bytes=self._config.wire_dtype.bytes,
            input_pixel_bytes=_PIXEL_BYTES[self._config.wire_image],
        )
        scheduler = Scheduler(self._workload, surroundings, robot_slowdown=self._slowdown)
        if self._policy.is_searched:
            threading.Thread(target=self._solve, args=(scheduler, surroundings), daemon=True).start()
        return scheduler

    def _solve(self, scheduler: Scheduler, surroundings: Surroundings) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        self._health.note("schedule", "searching")
        try:
            scheduler.table = load_or_solve(
                self._model_name, self._workload, surroundings, time_limit_s=self._schedule_s
            )
        except (CacheinfError, ValueError, MemoryError) as error:
            self._health.note("schedule", f"failed: {error}")
            self._logger.error(f"no schedules were found, only simple ones are used: {error}")
            return
        self._health.note("schedule", "solved")
        self._logger.info("schedules are solved")

    def _send(self, packet: Packet) -> None:
        self._sender.publish(self._packets, packet_message(packet), packet.bytes_on_wire)

    def _receive(self, message: SplitPacket) -> None:
        self.session.receive(packet_from(message))

    def _say(self, complaint: str) -> None:
        if complaint == self._said:
            return
        self._said = complaint
        self._health.note("server", complaint or "up")
        if complaint:
            self._logger.warning(f"server: {complaint}; frames are computed here until a session starts")
        else:
            self._logger.info("server: a session has started")
