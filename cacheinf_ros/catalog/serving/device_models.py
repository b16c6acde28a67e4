# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The variants that are loaded on the device: at most one per model, each with a cache, and one matching for all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.scheduling import SharedPart
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.catalog.serving.making_specialists import SpecialistSource
from cacheinf_ros.catalog.serving.shared_group import Group, MemberCache, group_for
from cacheinf_ros.catalog.serving.specialised_cache import SpecialisedCache, specialised_cache
from cacheinf_ros.catalog.specialists import original_weights
from cacheinf_ros.catalog.specialists.other_robots import OtherRobots
from cacheinf_ros.catalog.specialists.seen_classes import SeenClasses
from cacheinf_ros.catalog.specialists.specialiser import USUAL_RULES, SkewRules
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.config import CurrentConfigs
from cacheinf_ros.engine import EngineConfig, mode_of_maps
from cacheinf_ros.engine.decisions import Loss
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.map_producer import MapProducer

_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """An image about which models are asked.

    Attributes:
        image: uint8 [height, width, 3], BGR; the same object for all models.
        stamp_ns: time stamp of the image.
        header: header of the image's message, for sending the image to a server.
    """

    image: NDArray[np.uint8]
    stamp_ns: int
    header: Any = None


class PartitionLoader(Protocol):
    """Loads variants whose frames are partitioned between the device and a server."""

    def load(
        self, model: str, variant: str, network: Model, config: EngineConfig, note: Callable[[str, str], None]
    ) -> CachedModel:
        """Compile a variant of a model, and offer it to the server from now on."""
        ...


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A variant that is loaded and can run."""

    variant: str
    cached: CachedModel


class DeviceModels:
    """Loads and runs variants on the device; not thread-safe but for :meth:`news`.

    Attributes:
        seen: what each model has lately answered, by the model's name.
        weights: SHA-256 of the weights of each original, by which other robots know it; a model without is left out.
    """

    def __init__(
        self,
        folders: Iterable[CatalogFolder],
        parameters: CurrentConfigs,
        announcer: Announcer,
        split: PartitionLoader | None = None,
        rules: SkewRules = USUAL_RULES,
        others: OtherRobots | None = None,
    ) -> None:
        """Prepare; nothing is loaded yet.

        Args:
            folders: the catalogs of all models.
            announcer: tells the user what the models do.
            parameters: the node's parameters, for matching and engines.
            split: loads variants that are to be split; None: none is split.
            rules: rules for specialists.
            others: what other robots' models have lately answered; None: only this robot's count.
        """
        self._announcer, self._split, self._rules = announcer, split, rules
        self._folders = {folder.file.name: folder for folder in folders}
        self._parameters = parameters
        self._producer = MapProducer(parameters.get(MatchingConfig))
        self._loaded: dict[str, _Loaded] = {}
        digests = {model: original_weights(folder) for model, folder in self._folders.items()}
        self.weights = {model: digest for model, digest in digests.items() if digest}
        self.seen = {
            model: SeenClasses(rules.window_s, rules.watch_s, _counts_of_others(digest, others))
            for model, digest in digests.items()
        }
        self._matched: View | None = None

    def load(self, model: str, variant: str, place: Place = Place.DEVICE) -> bool:
        """Load a variant in place of the model's current one; does nothing where it is loaded already.

        Args:
            place: on the device, or split between it and the server.

        Returns:
            Whether anything had to be loaded.

        Raises:
            CatalogError: the variant's weights are missing or changed.
        """
        loaded = self._loaded.get(model)
        if loaded is not None and loaded.variant == variant and loaded.cached.share(wanted=place is Place.SPLIT):
            return False
        announcer, folder, config = self._announcer.of(model), self._folders[model], self._parameters.get(EngineConfig)
        network = folder.network(variant)  # before anything is dropped, as its files may be damaged
        self.drop(model)  # before it is compiled, as there may be no memory for both
        if place is Place.SPLIT:
            assert self._split is not None
            self._loaded[model] = _Loaded(variant, self._split.load(model, variant, network, config, announcer.note))
        else:
            source = _source(folder, variant, announcer)
            seen = self.seen[model]
            cached = source and specialised_cache(network, source, self._parameters, announcer, self._rules, seen)
            self._loaded[model] = _Loaded(variant, cached or self._grouped(model, network))
        return True

    def computed_with(self, model: str) -> tuple[str, ...]:
        """Return the other models whose results are computed together with this one's."""
        loaded = self._loaded.get(model)
        if loaded is None or not isinstance(loaded.cached, MemberCache):
            return ()
        return tuple(other for other in loaded.cached.group.members if other != model)

    def shared_parts(self) -> tuple[SharedPart, ...]:
        """Return the operators that loaded variants share; their size is a group's mean, as some share less.

        Groups that have changed are made ready first, as only that tells what they share.
        """
        parts = []
        for group in self._groups:
            if len(group.members) > 1:
                group.prepare()
                variants = {model: self._loaded[model].variant for model in group.members}
                parts.append(SharedPart(variants=variants, size=group.saved_bytes // (len(variants) - 1)))
        return tuple(parts)

    def regroup(self) -> None:
        """Drop models whose rates have changed so that they can share operators no longer, or with others than before.

        They are loaded anew at their next requests.
        """
        for group in self._groups:
            if len({self._rate_of(model) for model in group.members}) > 1:
                self._drop_group(group)
        kept: list[Group] = []
        for group in self._groups if self._parameters.get(CatalogConfig).share_operators else ():
            rate = self._rate_of(group.members[0])
            if any(self._rate_of(other.members[0]) == rate and other.admits_all(group) for other in kept):
                self._drop_group(group)
            else:
                kept.append(group)

    def _drop_group(self, group: Group) -> None:
        for model in group.members:
            self.drop(model)

    def _grouped(self, model: str, network: Model) -> MemberCache:
        rate = self._rate_of(model)
        alike = (g for g in self._groups if all(self._rate_of(member) == rate for member in g.members))
        group = group_for(network, alike) if self._parameters.get(CatalogConfig).share_operators else None
        if group is None:
            group = Group(lambda: self._parameters.get(EngineConfig), self._announcer)
        member = group.join(model, network)
        try:
            group.prepare()
        except Exception:
            group.leave(model)
            raise
        return member

    @property
    def _groups(self) -> tuple[Group, ...]:
        everything = (loaded.cached for loaded in self._loaded.values())
        return tuple(dict.fromkeys(cached.group for cached in everything if isinstance(cached, MemberCache)))

    def _rate_of(self, model: str) -> float:
        return dict(zip(self._folders, self._parameters.get(CatalogConfig).rates_hz, strict=True))[model]

    def drop(self, model: str) -> None:
        """Free what is loaded for a model, if anything."""
        loaded = self._loaded.pop(model, None)
        if loaded is not None:
            loaded.cached.close()

    def drop_all(self) -> None:
        """Free everything that is loaded."""
        for model in tuple(self._loaded):
            self.drop(model)

    def measured_loss(self, model: str) -> Loss | None:
        """Return the loss that bounded mode measured for a model in the last burst; None: none was measured."""
        loaded = self._loaded.get(model)
        promised = None if loaded is None else loaded.cached.runner.promised
        return None if promised is None else promised.measured

    def forget(self) -> None:
        """Forget earlier frames: the next one is matched and computed as the first."""
        self._producer = MapProducer(self._parameters.get(MatchingConfig))
        self._matched = None
        for loaded in self._loaded.values():
            loaded.cached.forget()

    def run(self, model: str, view: View) -> FrameResult:
        """Run the model's loaded variant; an image is matched only for the first model that is asked about it.

        Raises:
            CacheinfError: the image cannot be matched or run.
        """
        loaded = self._loaded[model]
        config = self._parameters.get(EngineConfig)
        match_ms = self._match(view, config)
        result = loaded.cached.run(view.image, view.stamp_ns, config)
        if result.decoded and result.decoded.classes and not isinstance(loaded.cached, SpecialisedCache):
            self.heard(model, result.decoded.classes[0].id, view.stamp_ns)
        engine = result.engine
        is_whole = "compute" in engine.stage_ms and engine.tells_savings  # a specialist alone has no such stage
        if match_ms and is_whole and self._is_heaviest(loaded):
            self._producer.learn(view.stamp_ns, engine.active_share, engine.stage_ms["compute"])
        timed = result.after({"match": match_ms})
        return replace(timed, model=model, variant=result.variant or loaded.variant)

    def heard(self, model: str, class_id: int, stamp_ns: int) -> None:
        """Count a class that a model has answered where no specialist is: its skew is that of all its answers.

        Args:
            stamp_ns: time stamp of the image.
        """
        self.seen[model].add(class_id, stamp_ns / _NS_PER_S)

    def news(self) -> dict[str, Counter[int]]:
        """Return the classes answered since the last call, as :meth:`SeenClasses.news` does; any thread may call it.

        By weights, as two models may have the same; empty counts say that there is nothing new.
        """
        told: dict[str, Counter[int]] = {}
        for model, weights in self.weights.items():
            told.setdefault(weights, Counter()).update(self.seen[model].news())
        return told

    def audit(self, model: str, *, idle: bool) -> None:
        """Check the model's loss against bounded mode's promise, where a check is due."""
        if model in self._loaded:
            self._loaded[model].cached.audit_if_due(idle=idle)

    def _match(self, view: View, config: EngineConfig) -> float:
        """Match an image, unless that was done before; returns the milliseconds it took, 0 where none."""
        if config.mode is Mode.DENSE or view is self._matched:
            return 0.0
        if self._matched is not None and view.stamp_ns <= self._matched.stamp_ns:
            for loaded in self._loaded.values():
                loaded.cached.forget_from(view.stamp_ns)
        self._matched = view
        matching = self._parameters.get(MatchingConfig)
        dense_ms = max(loaded.cached.runner.dense_ms for loaded in self._loaded.values())
        modes = {mode_of_maps(loaded.cached.runner.engine, config.mode) for loaded in self._loaded.values()}
        mode = config.mode if modes == {config.mode} else Mode.EXACT  # whose maps all can use
        update = self._producer.link(view.image, view.stamp_ns, matching, mode=mode, dense_ms=dense_ms)
        for loaded in self._loaded.values():
            loaded.cached.add(update)
        return update.matching_ms

    def _is_heaviest(self, loaded: _Loaded) -> bool:
        """Tell whether this is the heaviest network; it alone teaches the choice of matchers, to be consistent."""
        return all(loaded.cached.runner.dense_ms >= other.cached.runner.dense_ms for other in self._loaded.values())


def _counts_of_others(weights: str, others: OtherRobots | None) -> Callable[[], Counter[int]]:
    """Return what gives the classes that other robots' same model has answered; none where weights have no digest."""
    if others is None or not weights:
        return Counter
    return lambda: others.counts(weights, time.monotonic())


def _source(folder: CatalogFolder, variant: str, announcer: Announcer) -> SpecialistSource | None:
    """Return what specialists before a variant are made from; None, which is said, also where that is unreadable."""
    try:
        return SpecialistSource.of(folder, variant)
    except CatalogError as error:
        announcer.note("specialising", f"none: {error}")
        announcer.say(f"{folder.file.name}: no specialists for {variant}: {error}")
        return None
