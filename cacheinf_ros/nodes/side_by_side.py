# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The node that shows two cameras' pictures side by side, as models with ``pictures: 2`` in their card take them."""

from __future__ import annotations

from sensor_msgs.msg import Image

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival, ImageReader, serialized_image
from cacheinf_ros.nodes.topics import profile, publish_on
from cacheinf_ros.pipeline import LatestQueue, guarded
from cacheinf_ros.pipeline.node_configs import ImageConfig, PairConfig, RightImageConfig
from cacheinf_ros.sources import PicturePairs, side_by_side

_NS_PER_MS = 1e6
_DEPTH = 2  # images kept for a subscriber that has not received them yet, as replay keeps
_TOLD_AFTER = 30  # left pictures without a right one, in a row

Pair = tuple[Arrival, Arrival]


class SideBySideNode(FrameNode):
    """Publishes one image for each picture of the left camera that has a partner, with its header."""

    def __init__(self) -> None:
        super().__init__("side_by_side", ImageConfig, RightImageConfig, PairConfig)
        depth = max(_DEPTH, self.parameters.get(ImageConfig).queue_size)
        self._images = publish_on(self, Image, "~/image", profile(depth))

    def activate(self) -> None:
        """Begin to listen to both cameras."""
        super().activate()
        left = self.parameters.get(ImageConfig)
        if left.voxels:
            raise ConfigError(
                "voxels: side_by_side shows images; give the other nodes image_topic and voxels without it"
            )
        right = self.parameters.get(RightImageConfig).beside(left)
        self._queue: LatestQueue[Pair] = LatestQueue(left.queue_size)
        self._pairs: PicturePairs[Arrival] = PicturePairs(self._most_apart_ns, is_live=True)
        self._hears_right = False  # since that was last told
        self._told_unpaired = 0  # how many were unpaired at the last pair, or when that was last told
        self._left_reader = ImageReader(left, self.health)
        self._right_reader = ImageReader(right, self.health, "right")
        self._left = Camera(self, left, self.health, self._store_left)
        self._right = Camera(self, right, self.health, self._store_right, "right")
        self.health.counted("unpaired", lambda: self._pairs.unpaired)
        self.begin(self._queue, self._join)

    def deactivate(self) -> None:
        """Finish the pair being worked on."""
        self._left.close()
        self._right.close()
        super().deactivate()

    @property
    def _most_apart_ns(self) -> int:
        return round(self.parameters.get(PairConfig).most_apart_ms * _NS_PER_MS)

    def _store_left(self, arrival: Arrival) -> None:
        self._pairs.most_apart_ns = self._most_apart_ns
        self._store(self._pairs.add_left(arrival.stamp_ns, arrival))

    def _store_right(self, arrival: Arrival) -> None:
        self._pairs.most_apart_ns = self._most_apart_ns
        self._hears_right = True
        self._store(self._pairs.add_right(arrival.stamp_ns, arrival))

    def _store(self, pairs: list[Pair]) -> None:
        if pairs:
            self.store(lambda: self._queue_all(pairs))
            self._told_unpaired, self._hears_right = self._pairs.unpaired, False
        elif self._hears_right and self._pairs.unpaired - self._told_unpaired >= _TOLD_AFTER:
            self._told_unpaired, self._hears_right = self._pairs.unpaired, False
            most_apart_ms = self._most_apart_ns / _NS_PER_MS
            self.health.complained(
                f"{_TOLD_AFTER} left pictures in a row have no right one within {most_apart_ms:g} ms of their stamps: "
                "have both cameras take their stamps from one clock, or raise most_apart_ms"
            )

    def _queue_all(self, pairs: list[Pair]) -> None:
        for pair in pairs:
            self._queue.put(pair)

    def _join(self, pair: Pair) -> None:
        left, right = pair
        self.health.count("accepted")
        with guarded(f"frame {left.stamp_ns}") as failure:
            image = side_by_side(self._left_reader.read(left.message), self._right_reader.read(right.message))
            self._images.publish(serialized_image(left.header, image))
        self.health.result(left.age_ms, 0.0, failure.reason)


def main() -> int:
    """Run the node."""
    return run_node("side_by_side", SideBySideNode)
