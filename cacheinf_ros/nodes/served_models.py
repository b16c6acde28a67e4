# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The models that a server runs for its robots: its own, and variants from catalogs, each with a cache per robot."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from cacheinf_ros.catalog.serving.node_configs import CatalogServerConfig
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import MessageError
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.weights import weight_bytes
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.msg import FrameRequest
from cacheinf_ros.nodes.conversions import encoded_image_from
from cacheinf_ros.nodes.parameters import Parameters
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.pipeline.runner import Runner

Note = Callable[[str, str], None]


class ServedModel:
    """A model with the cache of one robot's frames.

    Attributes:
        bytes: of memory, for weights and feature maps.
    """

    def __init__(self, model: Model, parameters: Parameters, note: Note) -> None:
        self._parameters = parameters
        self._held = CachedModel(Runner(model, parameters.get(EngineConfig), note))
        self._tracker = MapProducer(parameters.get(MatchingConfig))
        engine = self._held.runner.engine
        self.bytes = weight_bytes(model.graph) + engine.cache_bytes + engine.arena_bytes

    def run(self, request: FrameRequest, stamp_ns: int) -> FrameResult:
        """Match and run one frame; where this raises, the cache is empty."""
        image, config, runner = encoded_image_from(request), self._parameters.get(EngineConfig), self._held.runner
        runner.audit_if_due(idle=False)  # of the last frame, whose outputs have been sent: it may overwrite them
        matching = self._parameters.get(MatchingConfig)
        link = self._tracker.link(image, stamp_ns, matching, mode=config.mode, dense_ms=runner.dense_ms)
        self._held.add(link)
        result = self._held.run(image, stamp_ns, config)
        self._tracker.learn(stamp_ns, result.engine.active_share, result.engine.stage_ms["compute"])
        return result.after({"match": link.matching_ms})

    def close(self) -> None:
        """End what runs in the background."""
        self._held.close()


class ServedModels:
    """Made when a robot first asks for them. Not for use from several threads.

    Attributes:
        folders: the catalogs.
    """

    def __init__(self, model: Model, config: CatalogServerConfig, parameters: Parameters) -> None:
        """Read the catalogs; :class:`CatalogError` where that cannot be done.

        Args:
            model: the server's own.
            parameters: of the node, for matching and engines.
        """
        self._own = model
        self.folders = config.read()
        self._catalogs = {folder.file.name: folder for folder in self.folders}
        self._capacity = config.catalog_memory_mb * 1e6
        self._parameters = parameters
        self._of: dict[str, ServedModel] = {}  # the server's own model, by session
        self._variants: OrderedDict[tuple[str, str], ServedModel] = OrderedDict()  # the least recently used first

    @property
    def used_bytes(self) -> int:
        """By variants from catalogs."""
        return sum(served.bytes for served in self._variants.values())

    def run(self, request: FrameRequest, stamp_ns: int, note: Note) -> FrameResult:
        """Run what the request asks for; loading, where that was necessary, is a stage of the result.

        Raises:
            MessageError: there is no such model or variant here.
            CatalogError: the variant cannot be loaded.
        """
        started = time.perf_counter()
        is_new, served = self._find(request.session, request.model, note)
        load_ms = 1e3 * (time.perf_counter() - started)
        result = served.run(request, stamp_ns)
        return result.after({"load": load_ms}) if is_new else result

    def forget(self, session: str) -> None:
        """The robot is gone."""
        own = self._of.pop(session, None)
        variants = [self._variants.pop(key) for key in list(self._variants) if key[0] == session]
        for served in [*variants, *([own] if own else [])]:
            served.close()

    def close(self) -> None:
        """End what runs in the background."""
        for served in (*self._of.values(), *self._variants.values()):
            served.close()

    def _find(self, session: str, name: str, note: Note) -> tuple[bool, ServedModel]:
        """What runs that model for that robot, and whether it is new."""
        if name == self._own.name:
            if session not in self._of:
                self._of[session] = ServedModel(self._own, self._parameters, note)
            return False, self._of[session]
        key = (session, name)
        is_new = key not in self._variants
        if is_new:
            self._variants[key] = ServedModel(self._load(name), self._parameters, note)
        self._variants.move_to_end(key)
        while self.used_bytes > self._capacity and len(self._variants) > 1:
            self._variants.popitem(last=False)[1].close()
        return is_new, self._variants[key]

    def _load(self, name: str) -> Model:
        model, _, variant = name.rpartition("/")
        catalog = self._catalogs.get(model)
        if catalog is not None:
            return catalog.network(variant)
        also = f" and has catalogs of {', '.join(self._catalogs)}" if self._catalogs else ""
        raise MessageError(f"this server runs {self._own.name!r}{also}, not {name!r}: start both with one model")
