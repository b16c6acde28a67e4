"""Matcher and inference in one process: one image subscription, and the map never leaves the process."""

from __future__ import annotations

import sys
from typing import Any

from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.configs import ImageConfig
from cacheinf_ros.nodes.conversions import image_from
from cacheinf_ros.nodes.frame_node import Arrival, FrameNode, run_node
from cacheinf_ros.nodes.own_maps import OwnMaps
from cacheinf_ros.nodes.pairing import LatestQueue
from cacheinf_ros.nodes.pipeline import Outcome, Pipeline, Prepared
from cacheinf_ros.nodes.topics import subscribe_to_images


class CachedInferenceNode(FrameNode):
    """Matches and runs every frame that it accepts; publishes one result for each."""

    def __init__(self) -> None:
        super().__init__("cached_inference", MatchingConfig, ImageConfig, *Pipeline.CONFIGS)
        get = self.parameters.get
        self._pipeline = Pipeline(self)
        self._maps = OwnMaps(get(MatchingConfig))
        self._queue: LatestQueue[Arrival] = LatestQueue(get(ImageConfig).queue_size)
        self._images = subscribe_to_images(self, get(ImageConfig), self._store_image)
        self.begin(self._queue, self._infer, self._pipeline.rest)

    def _store_image(self, message: Any) -> None:
        self.health.count("received")
        self.store(lambda: self._queue.put(Arrival(message)))

    def _infer(self, arrival: Arrival) -> None:
        outcome = self._pipeline.answer(arrival, lambda: self._prepare(arrival))
        if outcome is Outcome.HELD:
            self._maps.chain.hold(arrival.stamp_ns)
        elif outcome is Outcome.LOST:
            self._maps.chain.forget()

    def _prepare(self, arrival: Arrival) -> Prepared:
        image = image_from(arrival.message)
        link, fold = self._maps.match(image, arrival.stamp_ns, self.parameters.get(MatchingConfig))
        return Prepared(image=image, fold=fold, matching_ms=link.matching_ms)


def main() -> int:
    """Run the node."""
    return run_node("cached_inference", CachedInferenceNode)


if __name__ == "__main__":
    sys.exit(main())
