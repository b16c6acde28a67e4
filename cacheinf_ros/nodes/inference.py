# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The inference node: runs the model on the parts of each frame that the cache maps leave to compute."""

from __future__ import annotations

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.msg import CacheMap, EngineState
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.conversions import link_from
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival, ImageReader
from cacheinf_ros.nodes.pipeline import Pipeline, prepare
from cacheinf_ros.nodes.topics import CACHE_MAPS, MAP_DEPTH, engine_state_topic, profile, publish_on, subscribe_to
from cacheinf_ros.pipeline import FramePairing, Paired, guarded
from cacheinf_ros.pipeline.node_configs import ImageConfig, PairingConfig

_NS_PER_MS = 1_000_000


class InferenceNode(FrameNode):
    """Pairs images with the matcher's cache maps; publishes one result for every frame that it accepts."""

    def __init__(self) -> None:
        super().__init__("inference", EngineConfig, *Pipeline.CONFIGS, ImageConfig, PairingConfig)
        self._told: EngineState | None = None

    def configure(self) -> None:
        """Load the model."""
        self._pipeline = Pipeline(self)
        self._engine_state = publish_on(self, EngineState, engine_state_topic(self), profile(1, latched=True))

    def activate(self) -> None:
        """Start with an empty cache."""
        super().activate()
        get = self.parameters.get
        self._pairing: FramePairing[Arrival] = FramePairing(
            map_timeout_ns=round(get(PairingConfig).map_timeout_ms * _NS_PER_MS),
            queue_size=get(ImageConfig).queue_size,
        )
        self._reader = ImageReader(get(ImageConfig), self.health)
        self._tell_engine_state()
        self._maps = subscribe_to(self, CacheMap, CACHE_MAPS, self._store_map, profile(MAP_DEPTH))
        self._camera = Camera(self, get(ImageConfig), self.health, self._store_image)
        self._pipeline.connect()
        gives_way = not self._pipeline.waits_for_server
        self.begin(self._pairing, self._infer, self._pipeline.rest, gives_way=gives_way)

    def deactivate(self) -> None:
        """Finish the frame being worked on, and tell the matcher and the server."""
        self._camera.close()
        super().deactivate()
        self._tell_engine_state(is_active=False)
        self._pipeline.disconnect()

    def clean_up(self) -> None:
        """Free the model."""
        self._pipeline.close()
        del self._pipeline
        self._told = None  # the publisher that told it is gone

    def _store_image(self, arrival: Arrival) -> None:
        self.store(lambda: self._pairing.add_frame(arrival, arrival.stamp_ns, arrival.received_ns))

    def _store_map(self, message: CacheMap) -> None:
        with guarded("cache map") as failure:
            update = link_from(message, self._reader.image_values, self._reader.voxels)
            self.store(lambda: self._pairing.add_map(update))
        if failure:
            self.health.failed(failure.reason)

    def _tell_engine_state(self, *, is_active: bool = True) -> None:
        """Tell the matcher which maps can be used, so that it looks for no motion that this mode cannot follow."""
        state = EngineState(
            mode=self._pipeline.mode_of_maps.value,
            dense_ms=self._pipeline.dense_ms,
            wants_maps=is_active and self._pipeline.wants_maps,
        )
        if state != self._told:
            self._told = state
            self._engine_state.publish(state)

    def _infer(self, paired: Paired[Arrival]) -> None:
        self._tell_engine_state()
        read = self._reader.read
        outcome = self._pipeline.answer(
            paired.frame, lambda: prepare(read(paired.frame.message), paired), starts_over=paired.starts_over
        )
        self.store(lambda: self._pairing.note(paired, outcome))


def main() -> int:
    """Run the node."""
    return run_node("inference", InferenceNode)
