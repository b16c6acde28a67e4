# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node that listens from outside: keeps results, maps, diagnostics and the camera's clock, and sets parameters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.serialization import deserialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image

from cacheinf_ros.config import Value
from cacheinf_ros.engine import Box
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.msg import CacheMap, FrameFigures, InferenceResult
from cacheinf_ros.nodes.conversions import link_from, stamp_ns
from cacheinf_ros.nodes.results import decoded_from, outputs_from
from cacheinf_ros.nodes.spinning import ListeningNode, surviving
from cacheinf_ros.nodes.topics import profile
from cacheinf_ros.pipeline import MapUpdate, wait_until

_DEPTH = 1000
_ANSWER_S = 20.0
_NS_PER_S = 1_000_000_000
_AS_SENT = ("model", "variant", "why", "mode", "where", "error", "reuse_ratio", "active_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A result as it arrived.

    Attributes:
        stamp_ns: the stamp of the image.
        arrived_ns: when it arrived, by :func:`time.time_ns`, which is the clock of the stamps.
        model: the model that was asked.
        variant, why: the choice from a catalog, where there was one.
        stage_ms: what the stages took in the inference node, by its own clock.
        serialized: the message as it came over the wire (CDR).
    """

    stamp_ns: int
    arrived_ns: int
    model: str
    variant: str
    why: str
    mode: str
    where: str
    error: str
    reuse_ratio: float
    active_share: float
    stage_ms: Mapping[str, float]
    boxes: tuple[Box, ...]
    serialized: bytes

    @property
    def compute_ms(self) -> float:
        """The time that all stages took together, in ms."""
        return sum(self.stage_ms.values())

    @property
    def outputs(self) -> dict[str, NDArray[Any]]:
        """The outputs that were sent, by name, without those that were too large."""
        return outputs_from(deserialize_message(self.serialized, InferenceResult))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedMap:
    """A class map, with the class of each pixel, as it arrived.

    Attributes:
        stamp_ns: the stamp of the image.
        arrived_ns: when it arrived, by :func:`time.time_ns`.
        classes: uint8 [height, width].
    """

    stamp_ns: int
    arrived_ns: int
    classes: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPromise:
    """The loss that a node promised for a frame, and that measured in the last burst; each may be NaN."""

    asked: float
    measured: float


class Recorder(ListeningNode):
    """A node in a thread of its own; use it as a context manager.

    It receives only from publishers with latched (transient local) results and maps, and so from their first message
    on.

    Attributes:
        results: in order of arrival.
        links: cache maps by stamp.
        class_maps: in order of arrival, where their topic was given.
        promises: by the frame's stamp, where the topic of figures was given.
        clock_ns: by the frame's stamp, when ``replay`` was about to publish it, by :func:`time.time_ns`; only with
            ``publish_clock``.
    """

    def __init__(
        self,
        *,
        domain: int,
        result_topic: str,
        cache_map_topic: str = "cache_map",
        class_map_topic: str = "",
        figures_topic: str = "",
    ) -> None:
        self.results: list[Recorded] = []
        self.links: dict[int, MapUpdate] = {}
        self.class_maps: list[RecordedMap] = []
        self.promises: dict[int, RecordedPromise] = {}
        self.clock_ns: dict[int, int] = {}
        self._hears_figures = bool(figures_topic)
        super().__init__("recorder", domain)
        many = profile(_DEPTH, latched=True)
        self.node.create_subscription(
            InferenceResult, result_topic, surviving("a result", self._keep_result), many, raw=True
        )
        self.node.create_subscription(
            CacheMap, cache_map_topic, surviving("a cache map", self._keep_map), many, raw=True
        )
        self.node.create_subscription(Clock, "/clock", self._keep_clock, profile(_DEPTH))
        if class_map_topic:
            self.node.create_subscription(
                Image, class_map_topic, surviving("a class map", self._keep_class_map), profile(_DEPTH)
            )
        if figures_topic:
            self.node.create_subscription(
                FrameFigures, figures_topic, surviving("figures", self._keep_promise), profile(_DEPTH)
            )

    @property
    def is_behind(self) -> bool:
        """Whether figures of the last result are still to come, or its class map where earlier results had one.

        Each topic is in order, but results may overtake the others.
        """
        if not self.results:
            return False
        last_ns = self.results[-1].stamp_ns
        lacks_figures = self._hears_figures and last_ns not in self.promises
        return lacks_figures or bool(self.class_maps and self.class_maps[-1].stamp_ns != last_ns)

    def take(self) -> tuple[list[Recorded], dict[int, MapUpdate]]:
        """Return what was recorded since the last call, and forget it."""
        taken = (self.results, self.links)
        self.results, self.links, self.class_maps, self.promises, self.clock_ns = [], {}, [], {}, {}
        return taken

    def counts(self, node: str) -> dict[str, int]:
        """Return the counts in a node's latest diagnostics: received, accepted, dropped, results, errors."""
        return {name: int(text) for name, text in self.said(node).items() if text.isdigit()}

    def set_parameters(self, node: str, **values: Value) -> None:
        """Set parameters of a node; raises :class:`ConfigError` with the reason where it refuses or does not answer."""
        client = self.node.create_client(SetParameters, f"{node}/set_parameters")
        try:
            if not client.wait_for_service(_ANSWER_S):
                raise ConfigError(f"node {node} has no parameter services: is it running?")
            wanted = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
            future = client.call_async(SetParameters.Request(parameters=wanted))
            if not wait_until(future.done, _ANSWER_S):
                raise ConfigError(f"node {node} did not answer within {_ANSWER_S:g} s")
            refused = [answer.reason for answer in future.result().results if not answer.successful]
        finally:
            self.call(lambda: self.node.destroy_client(client))
        if refused:
            raise ConfigError(f"node {node} refuses {values}: {'; '.join(refused)}")

    def _keep_result(self, serialized: bytes) -> None:
        arrived_ns = time.time_ns()
        message: Any = deserialize_message(serialized, InferenceResult)
        self.results.append(
            Recorded(
                stamp_ns=stamp_ns(message.header),
                arrived_ns=arrived_ns,
                **{field: getattr(message, field) for field in _AS_SENT},
                stage_ms=dict(zip(message.stage_names, map(float, message.stage_ms), strict=True)),
                boxes=decoded_from(message).boxes,
                serialized=bytes(serialized),
            )
        )

    def _keep_map(self, serialized: bytes) -> None:
        link = link_from(deserialize_message(serialized, CacheMap))
        self.links[link.stamp_ns] = link

    def _keep_class_map(self, message: Any) -> None:
        arrived_ns = time.time_ns()
        pixels = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
        classes = pixels[:, : message.width].copy()
        self.class_maps.append(RecordedMap(stamp_ns=stamp_ns(message.header), arrived_ns=arrived_ns, classes=classes))

    def _keep_promise(self, message: Any) -> None:
        said = RecordedPromise(asked=message.loss_asked, measured=message.loss_measured)
        self.promises[stamp_ns(message.header)] = said

    def _keep_clock(self, message: Any, info: Any) -> None:
        # the publisher's time stamp, since the message may reach us only after the result
        self.clock_ns[message.clock.sec * _NS_PER_S + message.clock.nanosec] = info["source_timestamp"]
