# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants that run split between robot and server, and what their traffic and server time cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.catalog import Catalog, Cost, Place, PriceConfig
from cacheinf_ros.catalog.scheduling import Load
from cacheinf_ros.catalog.serving import CatalogBudgetConfig, CatalogConfig, Contact
from cacheinf_ros.energy import PowerModel, Spent
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph import Model
from cacheinf_ros.nodes.frame_node import FrameNode
from cacheinf_ros.nodes.row_sharing import RowSharing
from cacheinf_ros.nodes.server_connection import ServerConnection
from cacheinf_ros.offload import Identity, OffloadConfig
from cacheinf_ros.offload.planning import Contention, Scheduler, load_planner
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.frame_result import HELD, FrameResult
from cacheinf_ros.pipeline.node_configs import SharingConfig
from cacheinf_ros.pipeline.runner import Runner


class PartitionCosts:
    """Accumulates what shared frames took besides computing on the robot, and what they cost."""

    def __init__(self) -> None:
        self._spent, self._waited_ms, self._money = Spent(), 0.0, 0.0

    def add(self, spent: Spent, took_ms: float, money: float) -> None:
        """Add a frame.

        Args:
            spent: what the robot spent on it.
            took_ms: how long it took, in all.
            money: what it cost, in dollars.
        """
        self._spent = Spent(
            transmit_ms=self._spent.transmit_ms + spent.transmit_ms,
            receive_ms=self._spent.receive_ms + spent.receive_ms,
        )
        self._waited_ms += took_ms - spent.compute_ms
        self._money += money

    def take(self, took_ms: float) -> tuple[Spent, float]:
        """Return what frames have spent since the last call, and their dollars.

        Args:
            took_ms: the time since the last call; what is neither transfer nor waiting in it counts as computing.
        """
        spent, money = replace(self._spent, compute_ms=max(0.0, took_ms - self._waited_ms)), self._money
        self._spent, self._waited_ms, self._money = Spent(), 0.0, 0.0
        return spent, money


class SplitCache(CachedModel):
    """A variant that runs split or alone: with the server it needs all of its feature maps, alone only some.

    Attributes:
        variant: the variant's name.
        is_shared: whether its frames are to be shared with the server.
        is_closed: whether it is no longer used.
        complaint: why there is no session; empty: there is one.
        more_bytes: the memory it takes beyond that of a variant that is never shared, bytes.
    """

    def __init__(
        self,
        runner: Runner,
        link: RowSharing,
        costs_so_far: PartitionCosts,
        prices: PriceConfig,
        *,
        variant: str,
        costs: Iterable[Cost],
    ) -> None:
        """Prepare; ``costs`` are those of the variant, split and alone."""
        super().__init__(runner)
        split, alone = costs
        self.variant = variant
        self.is_shared, self.is_closed = True, False
        self.more_bytes = max(0, split.memory_bytes - alone.memory_bytes)
        self._link, self._costs_so_far, self._prices = link, costs_so_far, prices
        self._load_money = split.load_money
        self._loaded_by = ""  # the instance of the server that has loaded the variant
        self._paid_bytes, self._paid_ms = 0, 0.0

    @property
    def complaint(self) -> str:
        """Why there is no session with the server; empty where there is one."""
        return self._link.session.complaint

    def share(self, *, wanted: bool) -> bool:
        """Implement :meth:`CachedModel.share`: the variant can run either way."""
        self.is_shared = wanted
        return True

    def close(self) -> None:
        """End the session soon, and release the model."""
        self.is_closed = True
        self._link.close()
        super().close()

    def run(self, image: NDArray[np.uint8], stamp_ns: int, config: EngineConfig) -> FrameResult:
        """Implement :meth:`CachedModel.run`; the result's ``why`` says why the frame was not shared, if it was not."""
        if not self.is_shared:
            return super().run(image, stamp_ns, config)
        result = self._run(image, stamp_ns, config, self._link.partner())
        was_shared, took_ms = result.engine.where != "local", result.engine.stage_ms["compute"]
        by_engine = result.engine.by_engine and result.mode != HELD
        spent = self._link.computed(was_shared=was_shared, took_ms=took_ms, by_engine=by_engine)
        self._link.count(spent)
        self._costs_so_far.add(spent, took_ms, self._money())
        return result if was_shared else replace(result, why=f"; not shared: {self._link.why_alone}")

    def _money(self) -> float:
        """Return the dollars to pay since the last call; the server states what a frame took only after the frame."""
        crossed, served_ms = self._link.bytes_crossed, self._link.session.served_ms
        money = self._prices.dollars(served_ms - self._paid_ms, crossed - self._paid_bytes)
        self._paid_bytes, self._paid_ms = crossed, served_ms
        welcome = self._link.session.welcome
        if welcome is not None and welcome.instance != self._loaded_by:
            self._loaded_by = welcome.instance
            money += self._load_money
        return money


class _KeptRowSharing(RowSharing):
    """A row sharing that keeps its session whatever the policy is.

    Without it the model's variants on the server would count as lost.
    """

    @property
    def _needs_server(self) -> bool:
        return True


class CatalogSplit:
    """Loads variants that run split, and accounts for them; used only by the node's worker thread."""

    def __init__(self, node: FrameNode, catalogs: Iterable[Catalog], connection: ServerConnection) -> None:
        """Prepare; raises :class:`ConfigError` where ``server.policy`` divides no frames."""
        self._get = get = node.parameters.get
        self._offload, self._prices = get(OffloadConfig), get(CatalogBudgetConfig).prices
        policy = get(SharingConfig).offload_policy
        if not policy.divides_frames:
            raise ConfigError(
                f"server.policy {policy.value} splits no frames: choose another one, or keep "
                "requests here with policy: device_only"
            )
        load_planner()  # else the first request that is shared would wait for it
        self._node = node
        self._connection = connection
        self._catalogs = {catalog.model: catalog for catalog in catalogs}
        contact = Contact(
            patience_s=get(CatalogConfig).load_deadline_ms / 1e3,
            grace_s=2 * self._offload.probe_s + self._offload.server_deadline_ms / 1e3,
            pause_s=self._offload.probe_max_s,
        )
        self._contacts = {model: replace(contact) for model in self._catalogs}
        self._caches: dict[str, SplitCache] = {}
        self._costs = PartitionCosts()  # for all models together

    def load(
        self, model: str, variant: str, network: Model, config: EngineConfig, note: Callable[[str, str], None]
    ) -> SplitCache:
        """Compile a variant, and greet the server for it from now on; for ``note`` see :class:`Runner`."""
        with Contention() as contention:
            runner = Runner(network, config, note, with_server=True)
        link = _KeptRowSharing(
            self._node, self._connection, lambda: self._get(SharingConfig), self._offload, Identity.of(network),
            runner.engine, self._node.health, slowdown=contention.slowdown, prefix=f"{model}: ",
            make_scheduler=partial(Scheduler, power=self._get(PowerModel)),
        )  # fmt: skip
        known = self._catalogs[model].find(variant)
        assert known is not None
        costs = (known.costs[place] if place in known.costs else Cost() for place in (Place.SPLIT, Place.DEVICE))
        cache = SplitCache(runner, link, self._costs, self._prices, variant=variant, costs=costs)
        self._caches[model] = cache
        self._contacts[model].begin()
        return cache

    def take(self, took_ms: float) -> tuple[Spent, float]:
        """Return what :meth:`PartitionCosts.take` returns, for all models together."""
        return self._costs.take(took_ms)

    def is_lost(self, model: str) -> bool:
        """Tell whether a model's requests had better be served without the server, as its sessions do not start."""
        cache = self._open.get(model)
        return self._contacts[model].is_lost(None if cache is None else cache.complaint, time.monotonic())

    def in_the_way(self, load: Load, room_bytes: int) -> list[str]:
        """Return the models to drop: they run alone, but hold more memory than counts for running alone.

        Such a model is loaded again when it is asked for. While there is room, none is dropped, because loading usually
        takes longer than the server stays away.

        Args:
            load: what is loaded next.
            room_bytes: what is left of the memory budget of the device.
        """
        found = []
        for model, cache in self._open.items():
            stays = cache.variant == load.option.variant.name and load.option.place is Place.DEVICE
            if stays if model == load.model else not cache.is_shared:
                room_bytes -= cache.more_bytes
                if room_bytes < 0:
                    room_bytes += cache.more_bytes
                    found.append(model)
        return found

    @property
    def _open(self) -> dict[str, SplitCache]:
        """The caches that are in use, by model."""
        self._caches = {model: cache for model, cache in self._caches.items() if not cache.is_closed}
        return self._caches
