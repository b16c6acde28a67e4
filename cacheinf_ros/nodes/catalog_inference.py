# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many models on one camera under a budget: each is asked at its own rate, and a catalog of variants serves it.

MCDNN's scheduler (section 5.3) picks variant and place for every request.
"""

from __future__ import annotations

from cacheinf_ros.catalog.serving import CatalogConfig, RequestQueue
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.catalog_pipeline import CatalogPipeline
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.pipeline.node_configs import ImageConfig


class CatalogInferenceNode(FrameNode):
    """Publishes one result for every request that it accepts."""

    def __init__(self) -> None:
        super().__init__("catalog_inference", CatalogConfig, ImageConfig, *CatalogPipeline.CONFIGS)

    def configure(self) -> None:
        """Read the catalogs."""
        self._pipeline = CatalogPipeline(self)

    def activate(self) -> None:
        """Begin with empty caches."""
        super().activate()
        self._asking: RequestQueue[Arrival] = RequestQueue(
            self._pipeline.models,
            lambda: self.parameters.get(CatalogConfig).rates_hz,
            together=self._pipeline.computed_with,
        )
        self._camera = Camera(self, self.parameters.get(ImageConfig), self.health, self._store_image)
        self.begin(self._asking, self._pipeline.answer, self._pipeline.rest)

    def deactivate(self) -> None:
        """Finish the request at hand."""
        self._camera.close()
        super().deactivate()
        self._pipeline.forget()

    def clean_up(self) -> None:
        """Free the models, and tell the server."""
        self._pipeline.close()
        del self._pipeline

    def _store_image(self, arrival: Arrival) -> None:
        self.store(lambda: self._asking.put(arrival))


def main() -> int:
    """Run the node."""
    return run_node("catalog_inference", CatalogInferenceNode)
