# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The models that compute whole frames for robots: one for each session, with a cache of its frames."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header

from cacheinf_ros.catalog.serving import SplitModels
from cacheinf_ros.engine import EngineConfig, mode_of_maps
from cacheinf_ros.errors import CacheinfError, CatalogError, MessageError, shortened
from cacheinf_ros.graph import Model, weight_bytes
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.packet_messages import result_content, stamp_and_picture
from cacheinf_ros.nodes.parameters import Parameters
from cacheinf_ros.nodes.results import result_message
from cacheinf_ros.offload import NO_MEMORY, Identity
from cacheinf_ros.pipeline import Health, Outcome
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.pipeline.node_configs import ModelConfig, OutputLimitConfig
from cacheinf_ros.pipeline.runner import Runner
from cacheinf_ros.sources import decode_picture

LOAD = "load"
"""The stage of loading a variant, in the first result after it."""
ACTIVE_S = 5.0
"""For how many seconds a model keeps its memory after a frame, and a silent robot its place, if another wants it."""


class _LoadedModel:
    """A model with a cache of one robot's frames.

    Attributes:
        bytes: memory of weights and feature maps; 0 for models that are not from catalogs, which do not count.
        load_ms: how long loading took, until a result has reported it; None: it has, or need not be reported.
        used_s: when a frame last began, or loading ended, by the monotonic clock.
    """

    def __init__(self, model: Model, parameters: Parameters, note: Callable[[str, str], None]) -> None:
        self._parameters = parameters
        cameras = parameters.get(ModelConfig).cameras
        self._cached = CachedModel(Runner(model, parameters.get(EngineConfig), note, cameras=cameras))
        self._maps = MapProducer(parameters.get(MatchingConfig))
        engine = self._cached.runner.engine
        self.bytes = weight_bytes(model.graph) + engine.cache_bytes + engine.arena_bytes
        self.load_ms: float | None = None
        self.used_s = time.monotonic()

    @property
    def is_active(self) -> bool:
        """Whether its robot is at work, so that it must not make room for another's."""
        return time.monotonic() - self.used_s < ACTIVE_S

    def run(self, image: NDArray[np.uint8], stamp_ns: int) -> FrameResult:
        """Match and run one frame; where this raises, the cache is empty."""
        config, runner = self._parameters.get(EngineConfig), self._cached.runner
        runner.audit_if_due(idle=False)  # of the last frame, whose outputs it may overwrite: they have been sent
        matching = self._parameters.get(MatchingConfig)
        mode = mode_of_maps(runner.engine, config.mode)
        link = self._maps.link(image, stamp_ns, matching, mode=mode, dense_ms=runner.dense_ms)
        self._cached.add(link)
        result = self._cached.run(image, stamp_ns, config)
        if result.outcome is Outcome.CACHED and result.engine.tells_savings:
            self._maps.learn(stamp_ns, result.engine.active_share, result.engine.stage_ms["compute"])
        before = {"match": link.matching_ms}
        if self.load_ms is not None:
            before, self.load_ms = {LOAD: self.load_ms, **before}, None
        return result.after(before)

    def close(self) -> None:
        """End the background work."""
        self._cached.close()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Visit:
    """A session from beginning to end: a later session may have the same name while a frame of this one still runs.

    Attributes:
        session: the session's name.
        asked: the model that it asked for.
    """

    session: str
    asked: Identity


class WholeFrameModels:
    """Loads a model when a robot greets, and again when the robot asks for one that was dropped meanwhile.

    Models make room for others once their robots send nothing for :data:`ACTIVE_S` seconds. Sessions may use it from
    several threads, one thread each; one model is loaded at a time.
    """

    def __init__(self, models: SplitModels, capacity_bytes: float, parameters: Parameters, health: Health) -> None:
        """Prepare.

        Args:
            models: the models that can be loaded.
            capacity_bytes: memory for variants from catalogs, of which the least recently used are dropped; one alone
                may take more.
            parameters: the node's parameters, for matching and engines.
            health: takes what the node reports about itself.
        """
        self._models = models
        self._capacity = capacity_bytes
        self._parameters = parameters
        self._health = health
        self._lock = threading.Lock()  # for all attributes below
        self._asked: dict[str, _Visit] = {}  # by session
        self._loaded: OrderedDict[str, _LoadedModel] = OrderedDict()  # the least recently used first
        self._started: dict[_Visit, float] = {}  # sessions whose frames are being computed, and since when
        self._dropped: dict[_Visit, int] = {}  # bytes of models that made room for others
        self._loading = threading.Lock()  # loading takes memory beyond the model's own

    @property
    def used_bytes(self) -> int:
        """The memory that variants from catalogs take, in bytes."""
        with self._lock:
            return self._used_bytes()

    @property
    def busy_s(self) -> float:
        """How long the frame that takes longest has been computed so far, seconds."""
        with self._lock:
            return time.monotonic() - min(self._started.values()) if self._started else 0.0

    def open(self, session: str, asked: Identity) -> Callable[[bytes], bytes]:
        """Load a model for a session.

        Returns:
            a function that computes the content of a RESULT packet from that of a FRAME packet.

        Raises:
            MessageError: there is no such model here.
            CatalogError: the variant cannot be loaded, or there is no room for it as other robots are at work.
        """
        self.forget(session)
        visit = _Visit(session=session, asked=asked)
        with self._lock:
            self._asked[session] = visit
        try:
            self._load(visit)
        except Exception:
            self._forget(visit)
            raise
        return lambda content: self._answer(visit, content)

    def forget(self, session: str) -> None:
        """Forget a session that has ended, and free its model."""
        visit = self._asked.get(session)
        if visit is not None:
            self._forget(visit)

    def _forget(self, visit: _Visit) -> None:
        session = visit.session
        with self._lock:
            if self._asked.get(session) is not visit:
                return  # another session has its name now
            del self._asked[session]
            self._dropped.pop(visit, None)
            loaded = self._loaded.pop(session, None)
            self._health.forget(session)
        if loaded is not None:
            loaded.close()

    def close(self) -> None:
        """Forget all sessions."""
        for session in list(self._asked):
            self.forget(session)

    def _run(self, visit: _Visit, image: NDArray[np.uint8], stamp_ns: int) -> FrameResult:
        """Run a frame; where a variant had to be loaded, that is a stage of the first result after it."""
        with self._lock:
            if self._asked.get(visit.session) is not visit:
                raise MessageError(f"{visit.session} was forgotten")
            loaded = self._loaded.get(visit.session)
            if loaded is not None:
                self._loaded.move_to_end(visit.session)
                loaded.used_s = time.monotonic()
            else:
                self._check_room(visit, self._dropped.get(visit, 0))
        return (loaded or self._load(visit)).run(image, stamp_ns)

    def _answer(self, visit: _Visit, content: bytes) -> bytes:
        started = time.monotonic()
        self._health.count("received")
        self._health.count("accepted")
        with self._lock:
            self._started[visit] = started
        try:
            stamp_ns, picture = stamp_and_picture(content)
            result = self._run(visit, decode_picture(picture), stamp_ns)
        except Exception as error:  # also unforeseen ones, or diagnostics would go on saying OK
            said = str(error) if isinstance(error, CacheinfError) else f"internal error, see the node's log: {error!r}"
            self._tell_failed(visit, 1e3 * (time.monotonic() - started), shortened(said))
            raise
        finally:
            with self._lock:
                del self._started[visit]
        self._health.result(1e3 * (time.monotonic() - started), result.engine.reuse_ratio, source=visit.session)
        self._health.note("variants_mb", f"{self.used_bytes / 1e6:.0f}")
        message = result_message(Header(), result, self._parameters.get(OutputLimitConfig).max_output_bytes)
        message.where = "server"
        return result_content(message)

    def _tell_failed(self, visit: _Visit, latency_ms: float, error: str) -> None:
        """Report an error, unless its session was forgotten: nobody would take the error back then.

        The check and the report happen under one lock.
        """
        with self._lock:
            if self._asked.get(visit.session) is visit:
                self._health.result(latency_ms, 0.0, error, visit.session)
            else:
                self._health.failed(error)

    def _load(self, visit: _Visit) -> _LoadedModel:
        with self._loading:
            started = time.perf_counter()
            model = self._models.find(visit.asked, prepares=False)
            loaded = _LoadedModel(model, self._parameters, self._health.note)
            if self._models.is_own(model):
                loaded.bytes = 0
            else:
                loaded.load_ms = 1e3 * (time.perf_counter() - started)
            try:
                dropped = self._admit(visit, loaded)
            except CatalogError:
                loaded.close()
                raise
        for each in dropped:
            each.close()
        return loaded

    def _admit(self, visit: _Visit, loaded: _LoadedModel) -> list[_LoadedModel]:
        """Keep a model for its session, and return those that made room for it; raises where there is no room."""
        with self._lock:
            self._check_room(visit, loaded.bytes)
            if self._asked.get(visit.session) is visit:  # otherwise the session was forgotten meanwhile
                self._loaded[visit.session] = loaded
                self._dropped.pop(visit, None)
            return self._without_room_for(visit.session)

    def _check_room(self, visit: _Visit, needed: int) -> None:
        """Raise :class:`CatalogError` where models of robots at work leave less than so many bytes."""
        taken = sum(each.bytes for name, each in self._loaded.items() if name != visit.session and each.is_active)
        if needed and taken and taken + needed > self._capacity:
            raise CatalogError(NO_MEMORY)

    def _without_room_for(self, session: str) -> list[_LoadedModel]:
        """Take out the least recently used models of idle robots until the rest fits; the session's own stays."""
        dropped = []
        for other, loaded in [*self._loaded.items()]:
            if self._used_bytes() <= self._capacity:
                break
            if other != session and loaded.bytes and not loaded.is_active:
                self._dropped[self._asked[other]] = loaded.bytes
                dropped.append(self._loaded.pop(other))
        return dropped

    def _used_bytes(self) -> int:
        return sum(loaded.bytes for loaded in self._loaded.values())
