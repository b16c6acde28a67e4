# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants of several models with a common beginning, run as one network: MCDNN, section 5.2.2."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.catalog.heads.shared_models import SharedModel, merge_models, obstacle
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.engine import EngineConfig, decode
from cacheinf_ros.graph import Model, weight_bytes
from cacheinf_ros.pipeline import MapUpdate
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.runner import Runner


class Group:
    """Models that are asked at the same rate and have a common beginning; not thread-safe.

    They are merged into one network when it is first needed after a model has joined or left.
    """

    def __init__(self, config: Callable[[], EngineConfig], announcer: Announcer) -> None:
        self._config, self._announcer = config, announcer
        self._members: dict[str, MemberCache] = {}
        self._shared: SharedModel | None = None
        self._cached: CachedModel | None = None
        self._latest: tuple[NDArray[np.uint8], FrameResult] | None = None  # an image, and the result for all
        self._asked: set[str] = set()  # models that were asked about the latest image
        self._added: MapUpdate | None = None

    @property
    def cached(self) -> CachedModel | None:
        """The merged network with its cache; None: it is still to be made."""
        return self._cached

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(self._members)

    @property
    def saved_bytes(self) -> int:
        """The bytes of weights that the members save by sharing."""
        if self._shared is None:
            return 0
        apart = sum(weight_bytes(member.network.graph) for member in self._members.values())
        return apart - weight_bytes(self._shared.model.graph)

    def admits(self, network: Model) -> bool:
        """Tell whether a network has leading operators in common with each member."""
        return not any(obstacle(member.network, network) for member in self._members.values())

    def admits_all(self, other: Group) -> bool:
        """Tell whether all members of another group may join this one."""
        return all(self.admits(member.network) for member in other._members.values())

    def join(self, model: str, network: Model) -> MemberCache:
        """Add a model with its network; :meth:`prepare` makes the group ready."""
        member = self._members[model] = MemberCache(self, model, network)
        self._discard()
        return member

    def leave(self, model: str) -> None:
        """Remove a model."""
        self._members.pop(model, None)
        self._discard()
        self._announcer.of(model).note("shares", "n/a")

    def _discard(self) -> None:
        """Drop the merged network, and end its work in the background: members have changed."""
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def prepare(self) -> CachedModel:
        """Return the merged network with its cache, made anew where members have changed."""
        if self._cached is None:
            self._latest, self._shared = None, self._merged()
            network = self._shared.model if self._shared else next(iter(self._members.values())).network
            self._cached = CachedModel(Runner(network, self._config(), self._note_all))
            for model in self._members:
                others = ", ".join(other for other in self._members if other != model)
                self._announcer.of(model).note("shares", others or "n/a")
        return self._cached

    def _merged(self) -> SharedModel | None:
        if len(self._members) == 1:
            return None
        shared = merge_models([_named(member.network, model) for model, member in self._members.items()])
        share = shared.merged.flops / shared.merged.flops_apart
        names = ", ".join(self._members)
        self._announcer.say(f"{names} begin alike and are computed together: {share:.0%} of their operations")
        return shared

    def run(self, model: str, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Return one model's result for a frame; all are computed for the first model that is asked about it."""
        cached = self.prepare()
        if self._shared is None:
            return cached.run(image, stamp_ns, config)
        if self._latest is None or self._latest[0] is not image or model in self._asked:
            self._latest, self._asked = None, set()
            computed = cached.run(image, stamp_ns, config)
            # copied, as an audit may overwrite them
            kept = {name: value.copy() for name, value in computed.engine.outputs.items()}
            self._latest = image, replace(computed, engine=replace(computed.engine, outputs=kept))
        result, is_new = self._latest[1], not self._asked
        self._asked.add(model)
        engine = replace(result.engine, outputs=self._shared.outputs_of(model, result.engine.outputs))
        card, size = self._members[model].network.card, (image.shape[0], image.shape[1])
        own = replace(result, engine=engine, decoded=decode(engine.outputs, card, size, engine.motion))
        if is_new:
            return own
        free = replace(engine, active_share=0.0, stage_ms={})
        return replace(own, engine=free, why="; computed with the other models that begin alike")

    def add(self, update: MapUpdate) -> None:
        """Add the map update of a frame; further calls with the same update, by other members, do nothing."""
        cached = self.prepare()
        if update is not self._added:
            self._added = update
            cached.add(update)

    def _note_all(self, name: str, text: str) -> None:
        for model in self._members:
            self._announcer.of(model).note(name, text)


class MemberCache(CachedModel):
    """One model of a group, as a cached model.

    Attributes:
        group: the group that the model belongs to.
        network: the model's own network.
    """

    def __init__(self, group: Group, model: str, network: Model) -> None:
        self.group, self.network = group, network
        self._model = model

    @property
    def runner(self) -> Runner:
        """The runner of the group's merged network."""
        return self.group.prepare().runner

    def add(self, update: MapUpdate) -> None:
        """Implement :meth:`CachedModel.add`; see :meth:`Group.add`."""
        self.group.add(update)

    def run(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Implement :meth:`CachedModel.run`; see :meth:`Group.run`."""
        return self.group.run(self._model, image, stamp_ns, config)

    def forget(self) -> None:
        """Implement :meth:`CachedModel.forget`, for all models of the group."""
        if self.group.cached is not None:
            self.group.cached.forget()

    def forget_from(self, stamp_ns: int) -> None:
        """Forget cached frames from this time on, as time went back."""
        if self.group.cached is not None:
            self.group.cached.forget_from(stamp_ns)

    def audit_if_due(self, *, idle: bool) -> None:
        """Check the group's loss against bounded mode's promise, where a check is due."""
        if self.group.cached is not None:
            self.group.cached.audit_if_due(idle=idle)

    def close(self) -> None:
        """Leave the group."""
        self.group.leave(self._model)


def _named(network: Model, model: str) -> Model:
    return replace(network, card=network.card.model_copy(update={"name": model}))


def group_for(network: Model, groups: Iterable[Group]) -> Group | None:
    """Return the first group that a network may join, or None."""
    return next((group for group in groups if group.members and group.admits(network)), None)
