# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's part in sharing the frames of a model with a server: session, link, and the schedule of each frame."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rclpy.node import Node

from cacheinf_ros.energy import Spent
from cacheinf_ros.engine import Engine, Outdated, Partition
from cacheinf_ros.nodes.server_connection import LinkedSession, ServerConnection, ServerReport
from cacheinf_ros.offload import Frame, FramePeer, Identity, OffloadConfig, RowSession
from cacheinf_ros.offload.planning import Asking, Choice, Machines, Scheduler, Workload
from cacheinf_ros.offload.planning import profile as profile_of
from cacheinf_ros.offload.searching import ScheduleFinder
from cacheinf_ros.offload_policy import OffloadPolicy
from cacheinf_ros.pipeline import Health
from cacheinf_ros.pipeline.node_configs import SharingConfig

_ANOTHER = 1.5  # a server whose frame time differs by this factor counts as another machine
MakeScheduler = Callable[..., Scheduler]
"""A function that takes the arguments of :class:`Scheduler`, and returns one."""


class RowSharing(LinkedSession[RowSession]):
    """Shares the rows of a model's frames with a server.

    Used by the node's worker thread, except for receiving packets, greeting the server, and the end.

    Attributes:
        bytes_crossed: the bytes of all frames so far, in both directions.
    """

    def __init__(
        self,
        node: Node,
        connection: ServerConnection,
        sharing: Callable[[], SharingConfig],
        config: OffloadConfig,
        identity: Identity,
        engine: Engine,
        health: Health,
        *,
        slowdown: float,
        prefix: str = "",
        make_scheduler: MakeScheduler = Scheduler,
    ) -> None:
        """Prepare, and greet the server while the policy divides frames.

        Args:
            sharing: returns the present configuration.
            identity: the identity of the model.
            slowdown: how many times longer than measured this machine takes, as a first guess.
            prefix: the prefix of texts in log and diagnostics, where the node has several such links.
            make_scheduler: makes what chooses how each frame is divided.
        """
        assert engine.shared is not None
        self.bytes_crossed = 0
        self._prefix = prefix
        self._sharing = sharing
        self._model_name = identity.model
        self._slowdown = slowdown
        self._config = config
        self._health = health
        self._logger = node.get_logger()
        self._workload = Workload(engine.program.layout, engine.shared.space)
        self._robot_ms = profile_of(engine.program.layout, engine.shared.space, engine.cost)
        self._scheduler: Scheduler | None = None
        self._asked: Scheduler | None = None  # for this frame: another one may replace it meanwhile
        self._asking = Asking()
        self._was_skipped = False
        self._make_scheduler = make_scheduler
        self._finder: ScheduleFinder | None = None
        self._choice: Choice | None = None
        self._partner: FramePeer | None = None
        self._shared: tuple[Frame | None, Scheduler, Choice] | None = None  # the last frame that was shared
        report = ServerReport(node, health, started="a session has started", until="a session starts", prefix=prefix)
        self._identity, self._space = identity, engine.shared.space
        super().__init__(node, connection, report, config.probe_s, lambda: self._needs_server)

    @property
    def _needs_server(self) -> bool:
        return self._policy.divides_frames

    @property
    def _policy(self) -> OffloadPolicy:
        return self._sharing().offload_policy

    @property
    def why_alone(self) -> str:
        """The reason why the last frame was not shared."""
        if self._partner is not None and self._choice is None and not self._was_skipped:
            return "the engine, which shares frames (but not in mode deepcache), did not compute this one"
        if not self._policy.divides_frames:
            return f"server.policy is {self._policy.value}"
        if self._was_skipped or (self._choice is not None and self._choice.partition is None):
            return "alone it was predicted to end sooner, or to cost less energy"
        if self._partner is not None and not self._partner.is_awaited:
            return "the server is brought up to date"
        return self.session.complaint or "the session has only just started: the server has no frame yet"

    def _end(self) -> None:
        if self._finder is not None:
            self._finder.close()
        super()._end()

    def partner(self) -> FramePeer | None:
        """Return the server as the peer for one frame, or None where the frame is computed here."""
        self._choice = self._partner = None
        self._was_skipped = False
        self._asked = self._scheduler
        if self._asked is not None and not self._policy.sends_frames:
            self._partner = self.session.frame(self._choose)
        return self._partner

    def passed_over(self) -> None:
        """Take note of a frame that the server computed alone, from the frame's image."""
        if self._scheduler is not None:
            self._scheduler.unsettle()

    def computed(self, *, was_shared: bool, took_ms: float, by_engine: bool = True) -> Spent:
        """Take note of how a frame was computed.

        Args:
            was_shared: whether the server computed rows of it.
            took_ms: how long it took.
            by_engine: whether the answer is the engine's; where the engine was only on trial, the time says nothing
                about how to divide frames.

        Returns:
            the robot's part in the frame.
        """
        self._health.count("shared" if was_shared else "alone")
        choice, scheduler, partner = self._choice, self._asked, self._partner
        waited_ms = partner.waited_ms if partner is not None and by_engine else 0.0
        robot_ms = took_ms - waited_ms
        self._health.count("local_permille", round(1e3 * choice.local_share) if choice and was_shared else 1000)
        if self._was_skipped:
            return Spent(compute_ms=robot_ms)
        is_as_chosen = choice is not None and was_shared == (choice.partition is not None)
        if scheduler is not None and by_engine and not is_as_chosen:
            scheduler.unsettle()
        if choice is None or scheduler is None or partner is None:
            return Spent(compute_ms=robot_ms)
        transmit_ms = partner.bytes_sent / self.session.up.bytes_per_ms
        # while all that has come back was small, nothing is known of that direction
        down = self.session.down if self.session.down.is_known else self.session.up
        receive_ms = partner.bytes_received / down.bytes_per_ms
        self.bytes_crossed += partner.bytes_sent + partner.bytes_received
        self._health.count("bytes_sent", partner.bytes_sent)
        self._health.count("bytes_received", partner.bytes_received)
        if is_as_chosen and by_engine:
            scheduler.observe_robot(choice, robot_ms)
            scheduler.observe_frame(choice, took_ms)
        if was_shared:
            self._shared = partner.frame, scheduler, choice
        self._logger.debug(
            f"{'shared' if was_shared else 'alone'}: {took_ms:.1f} ms, {waited_ms:.1f} of them waiting, "
            f"{choice.predicted_ms:.1f} predicted{'' if choice.is_settled else ' (unsettled)'}; local share "
            f"{choice.local_share:.2f}, changed {choice.changed:.3f}; bytes {partner.bytes_sent} up, "
            f"{partner.bytes_received} down; link {self.session.up}; {scheduler.state}"
        )
        self._note("link_mbit_s", f"{self.session.up.mbit_s:.1f}")
        self._note("link_delay_ms", f"{self.session.up.delay_ms:.2f}")
        self._note("local_share", f"{choice.local_share:.2f}")
        self._note("predicted_ms", f"{choice.predicted_ms:.1f}")
        return Spent(compute_ms=robot_ms, transmit_ms=transmit_ms, receive_ms=receive_ms)

    def count(self, spent: Spent) -> None:
        """Count the times of the robot's part in a frame, for diagnostics."""
        self._health.count("robot_us", round(1e3 * spent.compute_ms))
        self._health.count("transmit_us", round(1e3 * spent.transmit_ms))
        self._health.count("receive_us", round(1e3 * spent.receive_ms))

    def _make_session(self, name: str, before: RowSession | None) -> RowSession:
        return RowSession(name, self._identity, self._space, self._config, self._connection.send, before=before)

    def _greet(self) -> None:
        welcome = self.session.welcome
        self._connection.belongs_to(self.session.name, welcome.server if welcome is not None else "")
        self.session.poll(self._finder.request if self._finder is not None else None)
        if welcome is not None:
            self._schedule_for(np.array(welcome.profile, np.float64))
        if self._scheduler is not None and self._policy.is_searched:
            self._find_schedules(self._scheduler)
        self._tell(self.session.complaint)

    def _choose(self, outdated: Outdated) -> Partition | None:
        scheduler, partner = self._asked, self._partner
        assert scheduler is not None and partner is not None
        is_searched = self._policy.is_searched
        self._was_skipped = is_searched and self._asking.skips()
        if self._was_skipped:
            return None
        self._hear_of_server()
        up = self.session.up
        choice = scheduler.choose(
            self._policy, up.mbit_s, up.delay_ms, outdated,
            frames=self._asking.frames, slower=self._sharing().slower_for_energy,
        )  # fmt: skip
        self._choice = choice
        is_awaited = self._asking.awaits(choice, partner.epoch)
        partner.is_awaited &= is_awaited or not is_searched
        return choice.partition

    def _schedule_for(self, server_ms: np.ndarray) -> None:
        """Begin to schedule for a server with this profile, unless it resembles the last server."""
        if self._scheduler is not None:
            takes_ms, took_ms = (float(each[:, -1].sum()) for each in (server_ms, self._scheduler.measured.server_ms))
            if max(takes_ms, took_ms) <= _ANOTHER * min(takes_ms, took_ms):
                return
        if self._finder is not None:
            self._finder.close()
            self._finder = None
        self._scheduler = self._make_scheduler(self._workload, self._meet(server_ms), robot_slowdown=self._slowdown)

    def _hear_of_server(self) -> None:
        """Take note of what the server took for a frame, which it states only after the frame has ended."""
        served, shared = self.session.served, self._shared
        if served is not None and shared is not None and served[0] == shared[0]:
            _, scheduler, choice = shared
            scheduler.observe_server(choice, served[1])
            self._shared = None

    def _meet(self, server_ms: np.ndarray) -> Machines:
        return Machines(
            robot_ms=self._robot_ms,
            server_ms=server_ms,
            value_bytes=self._config.wire_dtype.bytes,
            input_pixel_bytes=self._config.wire_image.pixel_bytes,
        )

    def _find_schedules(self, scheduler: Scheduler) -> None:
        """Have schedules found: stored, by the server, or here; until then the scheduler does without."""
        if self._finder is None:
            self._finder = ScheduleFinder(
                self._model_name, self._workload, scheduler, self._connection.solving,
                lambda text: self._note("schedule", text), search_s=self._sharing().schedule_s, prefix=self._prefix,
            )  # fmt: skip
        self._finder.poll()

    def _note(self, name: str, text: str) -> None:
        self._health.note(f"{self._prefix}{name}", text)
