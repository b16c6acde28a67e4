# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server node: computes its part of frames that robots share with it, and whole frames that they send.

It has a cache of its own for each robot.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.publisher import Publisher

from cacheinf_ros.catalog.catalog_folder import prepare_catalogs
from cacheinf_ros.catalog.serving.node_configs import CatalogServerConfig
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import CacheinfError, MessageError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.msg import FrameRequest, FrameResponse
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.results import result_message
from cacheinf_ros.nodes.served_models import ServedModels
from cacheinf_ros.nodes.split_robots import SplitRobots
from cacheinf_ros.nodes.topics import profile, publish_on, subscribe_to
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.node_configs import LimitConfig, ModelConfig, ResultConfig, ServerConfig, ServerTopicsConfig
from cacheinf_ros.pipeline.pairing import LatestOfEach
from cacheinf_ros.pipeline.runner import open_model

_REQUEST_DEPTH = 10  # of all robots together


@dataclass(frozen=True, slots=True)
class Robot:
    """What the server keeps of one robot: where to answer, and what takes its diagnostics."""

    answers: Publisher[Any]
    note: Callable[[str, str], None]


class ServerNode(FrameNode):
    """Answers every frame request that it accepts; of each robot, the latest frame wins."""

    def __init__(self) -> None:
        super().__init__(
            "server", MatchingConfig, EngineConfig, ModelConfig, ResultConfig, ServerTopicsConfig, ServerConfig,
            CatalogServerConfig, LimitConfig,
        )  # fmt: skip
        get = self.parameters.get
        self._model = open_model(get(ModelConfig))
        self._sender = Sender(self, get(LimitConfig))
        self._models = ServedModels(self._model, get(CatalogServerConfig), self.parameters)
        prepare_catalogs(self._models.folders, self.get_logger().info, self.get_logger().error)
        self._robots: OrderedDict[str, Robot] = OrderedDict()
        self._requests: LatestOfEach[Arrival] = LatestOfEach()
        qos = profile(_REQUEST_DEPTH)
        self._subscription = subscribe_to(
            self, FrameRequest, get(ServerTopicsConfig).request_topic, self._store_request, qos
        )
        shared = SplitModels(self._model, self._models.folders)
        self._sharing = SplitRobots(self, shared, self.parameters, self.health, self._sender)
        self.begin(self._requests, self._serve)

    def close(self) -> None:
        """Finish the frames at hand."""
        self._sharing.close()
        super().close()
        self._models.close()

    def _store_request(self, message: FrameRequest) -> None:
        self.health.count("received")
        self.store(lambda: self._requests.put(message.session, Arrival(message)))

    def _serve(self, arrival: Arrival) -> None:
        self.health.count("accepted")
        try:
            result = self._run(arrival)
        except CacheinfError as error:
            result = self._failed(str(error))
            self.get_logger().error(str(error), throttle_duration_sec=5.0)
        except Exception as error:  # a bug must not silence the node
            result = self._failed(f"internal error of the server: {type(error).__name__}: {error}")
            self.get_logger().error(traceback.format_exc())
        self._answer(arrival, result)
        self.health.result(arrival.age_ms, result.engine.reuse_ratio, result.error)

    def _run(self, arrival: Arrival) -> FrameResult:
        request = arrival.message
        robot = self._robot(request.session)
        result = self._models.run(request, arrival.stamp_ns, robot.note)
        self.health.note("variants_mb", f"{self._models.used_bytes / 1e6:.0f}")
        return result

    def _robot(self, session: str) -> Robot:
        robot = self._robots.get(session)
        if robot is None:
            robot = self._robots[session] = self._welcome(session)
        self._robots.move_to_end(session)
        self.health.note("robots", str(len(self._robots)))
        return robot

    def _welcome(self, session: str) -> Robot:
        if not session.isidentifier():
            raise MessageError(f"session {session!r} cannot be part of a topic name: use letters, digits and _")
        if len(self._robots) >= self.parameters.get(ServerConfig).max_robots:
            name, oldest = self._robots.popitem(last=False)
            self.destroy_publisher(oldest.answers)
            self._models.forget(name)
            self.get_logger().info(f"forgot {name}: too many robots")
        topic = f"{self.parameters.get(ServerTopicsConfig).response_topic}/{session}"
        answers = publish_on(self, FrameResponse, topic, profile(1, latched=True))

        def note(name: str, text: str) -> None:
            self.health.note(f"{session}: {name}", text)

        return Robot(answers, note)

    def _answer(self, arrival: Arrival, result: FrameResult) -> None:
        request = arrival.message
        robot = self._robots.get(request.session)
        if robot is not None:
            message = result_message(request.header, result, self.parameters.get(ResultConfig).max_output_bytes)
            message.where = "server"
            response = FrameResponse(session=request.session, sequence=request.sequence, result=message)
            self._sender.publish(robot.answers, response, len(message.data))

    def _failed(self, error: str) -> FrameResult:
        return FrameResult.failed(self._model.name, self.parameters.get(EngineConfig).mode, error)


def main() -> int:
    """Run the node."""
    return run_node("server", ServerNode)
