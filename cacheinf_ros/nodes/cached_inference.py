# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The node that matches and infers in one process, with a single image subscription.

Cache maps leave the process only while somebody subscribes to them. Matching of a frame runs in a thread of its own
while the previous frame is computed (DeepCache's pipeline, section 5).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.parameter import Parameter
from rclpy.utilities import remove_ros_args

from cacheinf_ros.cache_map import LARGEST_SIDE
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.launch_arguments import camera_namespaces
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.msg import CacheMap
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.conversions import cache_map_message
from cacheinf_ros.nodes.frame_node import FrameNode, run_nodes
from cacheinf_ros.nodes.image_messages import Arrival, ImageReader
from cacheinf_ros.nodes.pipeline import Pipeline, Prepared, prepare
from cacheinf_ros.nodes.row_sharing import MakeScheduler
from cacheinf_ros.nodes.topics import MAP_DEPTH, full_name, profile, publish_on
from cacheinf_ros.offload.planning import Scheduler
from cacheinf_ros.pipeline import FramePairing, LatestQueue, MapUpdate, Outcome, Paired, Told, Worker, guarded
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.pipeline.model_pool import ModelPool
from cacheinf_ros.pipeline.node_configs import ImageConfig, ServerTopicsConfig, UseServerConfig

_AHEAD = 2
"""The largest number of matched frames that wait to be computed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Matched:
    """A frame whose cache map is known.

    Attributes:
        image: uint8 [height, width, 3], BGR; None where it could not be read.
        error: why there is no image; empty where there is one.
        matching_ms: how long matching took, ms.
    """

    arrival: Arrival
    image: NDArray[np.uint8] | None = None
    error: str = ""
    matching_ms: float = 0.0


class CachedInferenceNode(FrameNode):
    """Matches and infers every frame that it accepts, and publishes one result for each."""

    def __init__(
        self, make_scheduler: MakeScheduler = Scheduler, models: ModelPool | None = None, **options: Any
    ) -> None:
        """Declare the parameters; the model is loaded by :meth:`configure`.

        Args:
            make_scheduler: makes what chooses how each frame is divided between robot and server.
            models: shared by the nodes of this process; None: no other node of it runs a model.
            options: passed to rclpy's Node.
        """
        super().__init__("cached_inference", EngineConfig, MatchingConfig, *Pipeline.CONFIGS, ImageConfig, **options)
        self._make_scheduler = make_scheduler
        self._models = models

    def configure(self) -> None:
        """Load the model."""
        self._pipeline = Pipeline(self, self._make_scheduler, self._models)

    def activate(self) -> None:
        """Start with an empty cache."""
        super().activate()
        get = self.parameters.get
        queue_size = self._queue_size = get(ImageConfig).queue_size
        self._producer = MapProducer(get(MatchingConfig))
        self._maps = publish_on(self, CacheMap, "~/cache_map", profile(MAP_DEPTH))
        self._arrivals: LatestQueue[Arrival] = LatestQueue(queue_size, self._wants_more)
        self._matched: FramePairing[_Matched] = FramePairing(map_timeout_ns=0, queue_size=queue_size)
        self._matching: Worker[Arrival] = Worker(self._arrivals, self._match, failed=self.health.failed)
        self._reader = ImageReader(get(ImageConfig), self.health)
        self._camera = Camera(self, get(ImageConfig), self.health, self._store_image)
        self._pipeline.connect()
        gives_way = not self._pipeline.waits_for_server
        self.begin(self._matched, self._infer, self._pipeline.rest, before=[self._matching], gives_way=gives_way)

    def deactivate(self) -> None:
        """Finish the frames being worked on, and tell the server that the session ends."""
        self._camera.close()
        super().deactivate()
        self._pipeline.disconnect()

    def clean_up(self) -> None:
        """Free the model."""
        self._pipeline.close()
        del self._pipeline

    def _store_image(self, arrival: Arrival) -> None:
        self._matching.tell(lambda: self._arrivals.put(arrival))

    def _match(self, arrival: Arrival) -> None:
        with guarded(f"frame {arrival.stamp_ns}") as failure:
            image = self._reader.read(arrival.message)
        if failure:
            matched = _Matched(arrival=arrival, error=failure.reason)
            update = self._producer.unreadable(arrival.stamp_ns, self._reader.size(arrival.message), failure.reason)
        else:
            update = self._update(arrival, image)
            matched = _Matched(arrival=arrival, image=image, matching_ms=update.matching_ms)
        self.store(lambda: self._add(matched, update))

    def _update(self, arrival: Arrival, image: NDArray[np.uint8]) -> MapUpdate:
        """Return the map of a frame; where matching fails, it reuses nothing, and everything is computed."""
        size = (min(image.shape[0], LARGEST_SIDE), min(image.shape[1], LARGEST_SIDE))
        if not self._pipeline.wants_maps:
            return self._producer.unwanted(arrival.stamp_ns, size)
        with guarded(f"matching of frame {arrival.stamp_ns}") as failure:
            return self._link(arrival, image)
        self.health.failed(failure.reason)
        return self._producer.unreadable(arrival.stamp_ns, size, failure.reason)

    def _link(self, arrival: Arrival, image: NDArray[np.uint8]) -> MapUpdate:
        update = self._producer.link(
            image,
            arrival.stamp_ns,
            self.parameters.get(MatchingConfig),
            mode=self._pipeline.mode_of_maps,
            dense_ms=self._pipeline.dense_ms,
        )
        if self._maps.get_subscription_count():
            self._maps.publish(
                cache_map_message(arrival.header, update, self._reader.image_values, self._reader.voxels)
            )
        return update

    def _add(self, matched: _Matched, update: MapUpdate) -> None:
        self._matched.add_frame(matched, matched.arrival.stamp_ns, matched.arrival.received_ns)
        self._matched.add_map(update)

    def _wants_more(self) -> bool:
        """Tell whether another frame is to be matched.

        Where frames queue up, not too many are matched ahead: the chain of maps has a limited length. Where only the
        latest frame counts, every frame is matched: the latest one must be ready.
        """
        return self._queue_size < _AHEAD or self._matched.waiting < _AHEAD

    def _infer(self, paired: Paired[_Matched]) -> None:
        self._matching.tell(lambda: None)  # wakes the matching thread: there is room for one more frame
        outcome = self._pipeline.answer(paired.frame.arrival, lambda: _prepared(paired), starts_over=paired.starts_over)
        computed = self._pipeline.computed
        if computed is not None and computed.outcome is Outcome.CACHED and computed.engine.tells_savings:
            self._producer.learn(paired.stamp_ns, computed.engine.active_share, computed.engine.stage_ms["compute"])
        self.store(lambda: self._matched.note(paired, outcome))


def _prepared(paired: Paired[_Matched]) -> Prepared:
    matched = paired.frame
    if matched.image is None:
        raise Told(matched.error)
    return prepare(matched.image, paired, matched.matching_ms)


def main() -> int:
    """Run the node.

    With ``--cameras TOPIC...`` there is a node for each topic, in the topic's namespace, and all share one model.
    """
    parser = argparse.ArgumentParser(prog="cached_inference")
    parser.add_argument("--cameras", nargs="+", metavar="TOPIC", help="full names of image topics: a node for each")
    topics = parser.parse_args(remove_ros_args(sys.argv)[1:]).cameras or []
    return run_nodes("cached_inference", lambda: _node_for_each(topics) if topics else [CachedInferenceNode()])


def _node_for_each(topics: Sequence[str]) -> list[CachedInferenceNode]:
    models = ModelPool()
    return [
        _node_for(topic, namespace, models) for topic, namespace in zip(topics, camera_namespaces(topics), strict=True)
    ]


def _node_for(topic: str, namespace: str, models: ModelPool) -> CachedInferenceNode:
    image_topic = Parameter("image_topic", value=topic)
    try:
        node = CachedInferenceNode(models=models, namespace=namespace, parameter_overrides=[image_topic])
        _check_server_topic(node, namespace)
    except ConfigError as error:
        raise ConfigError(f"the node for {topic}: {error}") from error
    return node


def _check_server_topic(node: CachedInferenceNode, namespace: str) -> None:
    """Refuse a topic of the server that is another one for each camera, so that no server hears it."""
    share_topic = node.parameters.get(ServerTopicsConfig).share_topic
    uses_server = node.parameters.get(UseServerConfig).use_server
    is_relative = not share_topic.startswith("/")
    if uses_server and is_relative and full_name(node, share_topic).startswith(f"{namespace}/"):
        raise ConfigError(
            f"server.share_topic {share_topic!r} lies in the camera's namespace {namespace}, where no server listens: "
            f"give it with a leading slash, such as /{share_topic.rpartition('/')[2]}, and server.shared_topic too"
        )
