# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The matcher node: finds out which parts of each frame the cache already holds."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import quoted
from cacheinf_ros.matching import MatchingConfig, draw_overlay
from cacheinf_ros.mode import Mode
from cacheinf_ros.msg import CacheMap, EngineState
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.conversions import cache_map_message
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival, ImageReader, LazyImage
from cacheinf_ros.nodes.topics import CACHE_MAPS, MAP_DEPTH, engine_state_topic, profile, publish_on, subscribe_to
from cacheinf_ros.pipeline import LatestQueue, MapUpdate, guarded
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.pipeline.node_configs import ImageConfig


class MatcherNode(FrameNode):
    """Publishes one cache map for every frame that it accepts, in order."""

    def __init__(self) -> None:
        super().__init__("matcher", MatchingConfig, ImageConfig)
        self._engine_mode, self._dense_ms = Mode.EXACT, 0.0  # until told: what every mode can follow
        self._is_wanted = True
        self._maps = publish_on(self, CacheMap, CACHE_MAPS, profile(MAP_DEPTH))
        self._overlay = LazyImage(self, "~/overlay")

    def activate(self) -> None:
        """Start without a reference frame."""
        super().activate()
        get = self.parameters.get
        self._queue: LatestQueue[Arrival] = LatestQueue(get(ImageConfig).queue_size)
        self._producer = MapProducer(get(MatchingConfig))
        self._engine_states = subscribe_to(
            self, EngineState, engine_state_topic(self), self._store_engine_state, profile(1, latched=True)
        )
        self._reader = ImageReader(get(ImageConfig), self.health)
        self._camera = Camera(self, get(ImageConfig), self.health, self._store_image)
        self.begin(self._queue, self._match)

    def deactivate(self) -> None:
        """Finish the frame being worked on."""
        self._camera.close()
        super().deactivate()

    def _store_image(self, arrival: Arrival) -> None:
        self.store(lambda: self._queue.put(arrival))

    def _store_engine_state(self, state: EngineState) -> None:
        try:
            mode = Mode(state.mode)
            if not 0 <= state.dense_ms < inf:
                raise ValueError
        except ValueError:
            self.health.complained(
                f"engine state: unusable mode {quoted(state.mode)} or dense_ms {state.dense_ms}; is another version of "
                "inference running?"
            )
            return
        self._engine_mode, self._dense_ms, self._is_wanted = mode, state.dense_ms, state.wants_maps
        self.health.note("engine_mode", state.mode)

    def _match(self, arrival: Arrival) -> None:
        self.health.count("accepted")
        with guarded(f"frame {arrival.stamp_ns}") as failure:
            image = self._reader.read(arrival.message)
            update = self._link(arrival, image)
        if failure:
            update = self._producer.unreadable(arrival.stamp_ns, self._reader.size(arrival.message), failure.reason)
        self._maps.publish(cache_map_message(arrival.header, update, self._reader.image_values, self._reader.voxels))
        self.health.result(arrival.age_ms, update.cache_map.reuse_ratio, failure.reason)
        if not failure and self._overlay.is_wanted:
            with guarded(f"overlay of frame {arrival.stamp_ns}") as undrawn:  # its map has been sent, and holds
                self._overlay.publish(arrival.header, draw_overlay(image, update.cache_map))
            if undrawn:
                self.health.complained(undrawn.reason)

    def _link(self, arrival: Arrival, image: NDArray[np.uint8]) -> MapUpdate:
        if not self._is_wanted:
            return self._producer.unwanted(arrival.stamp_ns, (image.shape[0], image.shape[1]))
        return self._producer.link(
            image,
            arrival.stamp_ns,
            self.parameters.get(MatchingConfig),
            mode=self._engine_mode,
            dense_ms=self._dense_ms,
        )


def main() -> int:
    """Run the node."""
    return run_node("matcher", MatcherNode)
