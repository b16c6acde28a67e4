# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The node that runs many models on one camera under a budget: each has its own rate and its own catalog of variants.

MCDNN's scheduler (section 5.3) picks variant and place for every request.
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheinf_ros.catalog import CatalogFolder
from cacheinf_ros.catalog.serving import CatalogConfig, RequestQueue
from cacheinf_ros.nodes.camera import Camera
from cacheinf_ros.nodes.catalog_pipeline import CatalogPipeline
from cacheinf_ros.nodes.frame_node import FrameNode, run_node
from cacheinf_ros.nodes.image_messages import Arrival
from cacheinf_ros.nodes.live_catalogs import LiveCatalogs
from cacheinf_ros.nodes.managed_node import Standing
from cacheinf_ros.pipeline.node_configs import ImageConfig


class CatalogInferenceNode(FrameNode):
    """Publishes one result for every request that it accepts."""

    def __init__(self) -> None:
        super().__init__("catalog_inference", CatalogConfig, ImageConfig, *CatalogPipeline.CONFIGS)

    def configure(self) -> None:
        """Read the catalogs."""
        self._pipeline = CatalogPipeline(self)
        self._live_catalogs = LiveCatalogs(self, CatalogConfig, self._register, self._go_on)

    def activate(self) -> None:
        """Start with empty caches."""
        super().activate()
        self._camera = Camera(self, self.parameters.get(ImageConfig), self.health, self._store_image)
        self._begin_to_ask()

    def deactivate(self) -> None:
        """Finish the request being served."""
        self._camera.close()
        super().deactivate()
        self._pipeline.forget()

    def clean_up(self) -> None:
        """Free the models, and end the sessions with the server."""
        self._live_catalogs.close()
        self._pipeline.close()
        del self._pipeline

    def _begin_to_ask(self) -> None:
        pipeline = self._pipeline
        self._asking: RequestQueue[Arrival] = RequestQueue(
            pipeline.models, lambda: pipeline.rates_hz, together=pipeline.computed_with
        )
        self.begin(self._asking, pipeline.answer, pipeline.rest)

    def _register(self, folders: Sequence[CatalogFolder]) -> bool:
        """Serve these models from now on, and drop the waiting image; False: the request at hand is not finished yet.

        The executor does not wait for it, as it may itself wait for what only the executor delivers.
        """
        if not self._ends_soon():
            return False
        try:
            self._pipeline.register(folders)
        finally:
            self._go_on()
        return True

    def _go_on(self) -> bool:
        """Ask the models that are served now, after a pause; False: the last request before it is not finished yet."""
        if not self._ends_soon():
            return False
        if self.standing is Standing.ACTIVE:
            self._begin_to_ask()
        return True

    def _store_image(self, arrival: Arrival) -> None:
        self.store(lambda: self._asking.put(arrival))


def main() -> int:
    """Run the node."""
    return run_node("catalog_inference", CatalogInferenceNode)
