# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The replay node: publishes a video, a bag, a folder of images or a built-in scene as a camera would."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.duration import Duration
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from cacheinf_ros.errors import SourceError
from cacheinf_ros.nodes.configured_node import ConfiguredNode
from cacheinf_ros.nodes.conversions import compressed_message, time_message
from cacheinf_ros.nodes.frame_node import READY, run_node
from cacheinf_ros.nodes.image_messages import serialized_image
from cacheinf_ros.nodes.spinning import surviving
from cacheinf_ros.nodes.topics import image_topic, profile, publish_on
from cacheinf_ros.pipeline import Backlog, Health
from cacheinf_ros.pipeline.node_configs import ImageTransport, ReplayConfig, ReplayPaceConfig, StampSource
from cacheinf_ros.sources import Frame, open_source

_NS_PER_S = 1_000_000_000
_FIRST_STAMP_NS = _NS_PER_S  # a stamp of 0 means "unknown" to much of ROS
_POLL_S = 0.02
_DIAGNOSTICS_DEPTH = 10


class _FollowedNode:
    """An inference node that is waited for, by its diagnostics.

    Attributes:
        backlog: the images that it has before it.
    """

    def __init__(self, node: Node, name: str, patience_s: float, ended: threading.Event) -> None:
        """Listen to a node's diagnostics.

        Args:
            node: listens.
            name: the followed node's name.
            patience_s: how long it may say nothing before that is an error.
            ended: ends all waiting.
        """
        self.backlog = Backlog()
        self._name, self._patience_s, self._ended = name, patience_s, ended
        node.create_subscription(
            DiagnosticArray, "/diagnostics", surviving("diagnostics", self._hear), profile(_DIAGNOSTICS_DEPTH)
        )

    def begin(self) -> None:
        """Wait for the node's first diagnostics; what it has answered so far does not count."""
        self._wait(lambda: self.backlog.heard_s is not None)

    def let_come_within(self, most_ahead: int) -> float:
        """Wait while so many images are not answered yet; returns for how long, in seconds.

        Raises:
            SourceError: the node is silent for too long.
        """
        return self._wait(lambda: self.backlog.images < most_ahead)

    def _wait(self, holds: Callable[[], bool]) -> float:
        began = time.monotonic()
        while not holds() and not self._ended.wait(_POLL_S):
            if time.monotonic() - max(began, self.backlog.heard_s or 0.0) > self._patience_s:
                raise SourceError(
                    f"{self._name} has said nothing for {self._patience_s:g} s: is it running? "
                    "Start it, raise wait_timeout_s, or leave wait_for_node empty"
                )
        return time.monotonic() - began

    def _hear(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == self._name:
                self.backlog.heard({value.key: value.value for value in status.values}, time.monotonic())


class ReplayNode(ConfiguredNode):
    """Publishes at the wanted rate in a thread of its own, and ends when the source ends."""

    def __init__(self) -> None:
        super().__init__("replay", ReplayConfig, ReplayPaceConfig)
        self.config = self.parameters.get(ReplayConfig)
        self._source = open_source(self.config.source)
        message_type, topic = image_topic(self.config.image_topic, self.config.image_transport)
        self._images = publish_on(self, message_type, topic, profile(self.config.queue_size))
        self._sim_clock = self.create_publisher(Clock, "/clock", profile(1)) if self.config.publish_clock else None
        self.ended = threading.Event()
        self._pace = self.parameters.get(ReplayPaceConfig)
        followed = self._pace.wait_for_node.lstrip("/")  # names in diagnostics have no leading slash
        self._followed = _FollowedNode(self, followed, self.config.wait_timeout_s, self.ended) if followed else None
        self.health = Health()  # a callback that fails is in the log only: this node publishes no diagnostics
        self._thread = threading.Thread(target=self._play, name="player", daemon=True)
        self.published = 0
        self._error: Exception | None = None

    def start(self) -> None:
        """Start playing."""
        self._thread.start()
        self.get_logger().info(READY)

    def give_way(self) -> None:
        """Do nothing: no thread waits for a callback of this node."""

    def close(self) -> None:
        """Stop playing; raises the error that playing failed with."""
        self.ended.set()
        self._thread.join(5.0)
        if self._error is not None:
            raise self._error

    def _play(self) -> None:
        try:
            serialized_image(self._header(0), np.zeros((1, 1, 3), np.uint8))  # warm up: the first takes 0.2 s
            self._wait_for_subscribers()
            self._publish_all()
            self._linger()
            self.get_logger().info(f"published {self.published} images")
        except Exception as error:  # raised again in the main thread
            self._error = error
        finally:
            self.ended.set()

    def _wait_for_subscribers(self) -> None:
        wanted, deadline = self.config.wait_for_subscribers, time.monotonic() + self.config.wait_timeout_s
        while self._images.get_subscription_count() < wanted and not self.ended.is_set():
            if time.monotonic() > deadline:
                raise SourceError(
                    f"{self._images.get_subscription_count()} of {wanted} subscribers to {self._images.topic_name} "
                    f"came within {self.config.wait_timeout_s:g} s: start them, or lower wait_for_subscribers"
                )
            time.sleep(_POLL_S)
        if wanted:
            self.ended.wait(self.config.settle_s)

    def _publish_all(self) -> None:
        start: float | None = None
        if self._followed is not None:
            self._followed.begin()
        for due_s, stamp_ns, frame in islice(self._schedule(), self.config.frames or None):
            if start is None:  # only now: opening a source takes a while, and delayed frames would come in a burst
                start = time.monotonic() - due_s
            if self._followed is not None:
                start += self._followed.let_come_within(self._pace.most_ahead)
            if self.ended.wait(max(0.0, start + due_s - time.monotonic())):
                return
            self._publish(stamp_ns, frame)

    def _schedule(self) -> Iterator[tuple[float, int, Frame]]:
        """Yield (seconds since the start, stamp of the source, frame).

        Stamps start again with each round of a loop, the seconds do not. Frames that are left out take their time all
        the same.
        """
        rate, played, round_start_s = self.config.rate, 0, 0.0
        while True:
            due_s, before = round_start_s, played
            for frame in self._source:
                due_s = played / rate if rate else round_start_s + frame.stamp_ns / _NS_PER_S
                if frame.index % self.config.every == 0:
                    yield due_s, _FIRST_STAMP_NS + frame.stamp_ns, frame
                played += 1
            if played == before:
                raise SourceError(f"{self.config.source} holds no frame: check that it is what you meant to play")
            round_start_s = due_s + 1.0 / (rate or self._source.fps)
            if not self.config.loop:
                return

    def _publish(self, stamp_ns: int, frame: Frame) -> None:
        if self._sim_clock is not None:
            self._sim_clock.publish(Clock(clock=time_message(stamp_ns)))
        if self.config.image_transport is ImageTransport.RAW:
            message: bytes | CompressedImage = serialized_image(self._header(stamp_ns), frame.image)
        else:  # stamped after compression, as a camera that compresses by itself does
            message = compressed_message(Header(), frame.image)
            message.header = self._header(stamp_ns)
        self._images.publish(message)
        self.published += 1
        if self._followed is not None:
            self._followed.backlog.published()

    def _header(self, stamp_ns: int) -> Header:
        own_stamps = self.config.stamp is StampSource.CLOCK and self._sim_clock is None
        stamp = self.get_clock().now().to_msg() if own_stamps else time_message(stamp_ns)
        return Header(stamp=stamp, frame_id=self.config.frame_id)

    def _linger(self) -> None:
        """Let the last image reach those who asked for reliable delivery."""
        self._images.wait_for_all_acked(Duration(nanoseconds=round(self.config.linger_s * _NS_PER_S)))


def main() -> int:
    """Run the node."""
    return run_node("replay", ReplayNode)
