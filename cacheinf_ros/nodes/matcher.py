"""The matcher node: which parts of each frame the cache already holds."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.matching import MatchingConfig, draw_overlay
from cacheinf_ros.matching.chain import Link
from cacheinf_ros.msg import CacheMap
from cacheinf_ros.nodes.configs import CacheMapConfig, ImageConfig
from cacheinf_ros.nodes.conversions import cache_map_message, image_from, image_size
from cacheinf_ros.nodes.frame_node import Arrival, FrameNode, run_node
from cacheinf_ros.nodes.own_maps import Tracker
from cacheinf_ros.nodes.pairing import LatestQueue
from cacheinf_ros.nodes.picture import Picture
from cacheinf_ros.nodes.topics import MAP_DEPTH, profile, publish_on, subscribe_to_images


class MatcherNode(FrameNode):
    """Publishes one cache map for every frame that it accepts, in order."""

    def __init__(self) -> None:
        super().__init__("matcher", MatchingConfig, ImageConfig, CacheMapConfig)
        get = self.parameters.get
        self._queue: LatestQueue[Arrival] = LatestQueue(get(ImageConfig).queue_size)
        self._tracker = Tracker(get(MatchingConfig))
        self._maps = publish_on(self, CacheMap, get(CacheMapConfig).cache_map_topic, profile(MAP_DEPTH))
        self._overlay = Picture(self, "~/overlay")
        self._images = subscribe_to_images(self, get(ImageConfig), self._store_image)
        self.begin(self._queue, self._match)

    def _store_image(self, message: Any) -> None:
        self.health.count("received")
        self.store(lambda: self._queue.put(Arrival(message)))

    def _match(self, arrival: Arrival) -> None:
        self.health.count("accepted")
        error = ""
        try:
            link = self._link(arrival)
        except CacheinfError as failure:
            error = str(failure)
            self.get_logger().error(f"frame {arrival.stamp_ns}: {error}", throttle_duration_sec=5.0)
        except Exception as failure:  # a bug must not silence the node
            error = f"internal error, see the node's log: {type(failure).__name__}: {failure}"
            self.get_logger().error(traceback.format_exc())
        if error:
            link = self._tracker.unreadable(arrival.stamp_ns, image_size(arrival.message), error)
        self._maps.publish(cache_map_message(arrival.header, link))
        self.health.result(arrival.age_ms, link.cache_map.reuse_ratio, error)

    def _link(self, arrival: Arrival) -> Link:
        image = image_from(arrival.message)
        link = self._tracker.link(image, arrival.stamp_ns, self.parameters.get(MatchingConfig))
        if self._overlay.is_wanted:
            self._overlay.publish(arrival.header, draw_overlay(image, link.cache_map))
        return link


def main() -> int:
    """Run the node."""
    return run_node("matcher", MatcherNode)


if __name__ == "__main__":
    sys.exit(main())
