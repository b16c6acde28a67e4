# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A day in the life of a robot with four models (MCDNN's figure 13), run with real nodes.

There is one camera, a server that goes away and comes back, and a budget for ten hours that has to last two minutes.
The server's process is stopped and continued: to the robot that is a lost and a restored network.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.catalog.day_catalogs import POWER, PRICES, build_catalogs, original_of, without_variants
from benchmarks.catalog.setting import Progress
from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogPolicy
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.config import Value
from cacheinf_ros.harness import NodeCommand, NodeGroup, NodeProcess
from cacheinf_ros.harness.domains import private_domain
from cacheinf_ros.harness.playback import IMAGE_TOPIC, RESULT_TOPIC
from cacheinf_ros.harness.processes import ProcessError
from cacheinf_ros.nodes.recorder import Recorded, Recorder
from cacheinf_ros.pipeline.polling import wait_until

POLICIES = ("server_only", "device_only", "accuracy")
"""The values of the node's parameter ``policy``; the last is ours. The others have only the original models."""
_NODE = "catalog_inference"
_START_S = 120.0
_BIN_S = 1.0
_TRIED_S = 30.0  # for so long the originals' requests are measured
_TRIED_J = 900.0  # more than they can take in that time; diagnostics state it in four digits
_LEFT = ("energy_left_j", "money_left")  # entries of the node's diagnostics


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The settings of the day that is measured.

    Attributes:
        folders: the catalogs' folders, one per model; without any, small ones of :data:`.day_catalogs.MODELS` are
            built.
        policies: the policies to run, one day each.
        day_s: how long a day is, and the budget's horizon.
        rate_hz: how often each model is asked, in Hz.
        away: when the server is out of reach: (from, to) as shares of the day.
        energy_share: the energy budget, as a share of what the originals take on the device all day. That is measured
            before the day begins: frames in a row, with which catalogs were built, take half the energy of requests
            that come one by one. Loading the originals whenever the server comes or goes is added to the budget; it
            would be negligible in ten hours, but is much in two minutes.
        money_share: the money budget, as a multiple of what the originals would cost in the cloud while it can be
            reached. Every model's requests are allowed the same, so that less than about 3 keeps the largest model out
            of the cloud.
        camera_hz: images per second.
    """

    folders: Sequence[Path] = ()
    policies: Sequence[str] = POLICIES
    day_s: float = 120.0
    rate_hz: float = 3.0
    away: Sequence[tuple[float, float]] = ((0.25, 0.4), (0.6, 0.8))
    energy_share: float = 0.45
    money_share: float = 3.0
    camera_hz: float = 6.0

    @property
    def connected_share(self) -> float:
        """The share of the day during which the robot is connected."""
        return 1.0 - sum(end - begin for begin, end in self.away)


def run_day(day: Day, progress: Progress = lambda text: None) -> dict[str, Any]:
    """Run the day once per policy.

    Returns:
        the budget, and for each policy what was served, when, where and how accurately.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cacheinf_day")))
        folders = [read_catalog(path) for path in day.folders or build_catalogs(scratch / "catalogs", progress)]
        originals = [without_variants(each, scratch / "originals" / each.file.name) for each in folders]
        request_j = joules_of_originals(day, originals, scratch / "tried", progress)
        energy_j, money = budget(day, folders, request_j)
        policies = {}
        for policy in day.policies:
            alone = policy in (CatalogPolicy.SERVER_ONLY.value, CatalogPolicy.DEVICE_ONLY.value)
            known = originals if alone else folders
            life = _Life(day, known, policy, {"energy_budget_j": energy_j, "cloud_budget": money})
            policies[policy] = life.live(scratch / policy, progress)
    return {
        "models": {folder.file.name: len(folder.catalog.variants) for folder in folders},
        "day_s": day.day_s,
        "rate_hz": day.rate_hz,
        "away_s": [[begin * day.day_s, end * day.day_s] for begin, end in day.away],
        "request_j": {"measured": request_j, "by_the_catalogs": _request_j(folders)},
        "energy_budget_j": energy_j,
        "cloud_budget": money,
        "energy_kind": "modelled",
        "policies": policies,
    }


def joules_of_originals(
    day: Day, originals: Sequence[CatalogFolder], scratch: Path, progress: Progress = lambda text: None
) -> float:
    """Measure the mean energy (J) of a request on the device over all models, asked as on the day itself.

    Raises :class:`ProcessError` where the node served no request.
    """
    tried = replace(day, day_s=_TRIED_S, away=())
    life = _Life(tried, originals, CatalogPolicy.DEVICE_ONLY.value, {"energy_budget_j": _TRIED_J, "cloud_budget": 0.0})
    figures = life.live(scratch, progress)
    served = sum(figures["served_per_s"][: int(figures["samples"][-1]["at_s"])])
    if not served or figures["energy_left_j"] is None:
        raise ProcessError(f"{_NODE} served none of the originals in {_TRIED_S:.0f} s")
    return float((_TRIED_J - figures["energy_left_j"]) / served)


def _request_j(folders: Sequence[CatalogFolder]) -> float:
    """Return the mean energy (J) of a request on the device, by the catalogs."""
    return float(np.mean([original_of(folder).costs[Place.DEVICE].energy_j for folder in folders]))


def budget(day: Day, folders: Sequence[CatalogFolder], request_j: float) -> tuple[float, float]:
    """Return the budget (J, dollars) of the day; the costs of loading and of the cloud come from the catalogs.

    Args:
        request_j: the mean energy (J) of a request to the originals on the device.
    """
    requests = day.rate_hz * day.day_s
    costs = [original_of(folder).costs for folder in folders]
    load_j = sum(cost[Place.DEVICE].load_energy_j for cost in costs)
    money = sum(cost[Place.CLOUD].money for cost in costs)
    changes = 1 + 2 * len(day.away)
    return (
        day.energy_share * requests * len(folders) * request_j + changes * load_j,
        day.money_share * day.connected_share * requests * money,
    )


@dataclass(frozen=True, slots=True)
class _Life:
    """The run of one policy's day."""

    day: Day
    folders: Sequence[CatalogFolder]
    policy: str
    budget: dict[str, float]

    def live(self, scratch: Path, progress: Progress) -> dict[str, Any]:
        with (
            private_domain() as domain,
            NodeGroup(scratch, domain=domain) as group,
            Recorder(domain=domain, result_topic=RESULT_TOPIC) as recorder,
        ):
            progress(f"{self.policy}: starting")
            server, robot = self._start(group)
            if not wait_until(
                lambda: len({result.model for result in recorder.results}) == len(self.folders), _START_S
            ):
                raise ProcessError(f"{_NODE} gave no results: {robot.output.strip()}")
            recorder.set_parameters(_NODE, budget_horizon_s=self.day.day_s)  # the day begins
            recorder.take()
            started, started_ns = time.monotonic(), time.time_ns()
            samples = list(self._watch(started, server, recorder, progress))
            results, _ = recorder.take()
        return self._figures(started_ns, results, samples)

    def _start(self, group: NodeGroup) -> tuple[NodeProcess, NodeProcess]:
        folders = [str(folder.path) for folder in self.folders]
        catalogs: dict[str, Value] = {"catalogs": folders, "mode": "dense", "matcher": "identity", "threads": 1}
        camera: dict[str, Value] = {"image_topic": IMAGE_TOPIC, "image_transport": "compressed"}
        power = {each.name: getattr(POWER, each.field) for each in type(POWER).declarations()}
        prices = {"server.price_s": PRICES.price_server_s, "server.price_mb": PRICES.price_mb}
        server = group.start(NodeCommand(executable="server", parameters=catalogs))
        robot = group.start(
            NodeCommand(
                executable=_NODE,
                parameters={
                    **catalogs, **camera, **power, **prices, **self.budget, "result_topic": RESULT_TOPIC,
                    "rates": [self.day.rate_hz], "policy": self.policy, "server.use": True,
                    "budget_horizon_s": self.day.day_s + _START_S, "server.wire_image": "jpeg",
                    "server.probe_s": 0.5, "server.probe_max_s": 1.0, "image_reliability": "reliable",
                    f"qos_overrides./{RESULT_TOPIC}.publisher.durability": "transient_local",  # as the recorder asks
                },
            )
        )  # fmt: skip
        server.wait_ready(_START_S)
        robot.wait_ready(_START_S)
        source = "scene:handheld?size=480x640&seed=3&frames=300"
        replayed: dict[str, Value] = {"source": source, "rate": self.day.camera_hz, "loop": True}
        group.start(NodeCommand(executable="replay", parameters={**replayed, **camera, "wait_for_subscribers": 1}))
        return server, robot

    def _watch(
        self, started: float, server: NodeProcess, recorder: Recorder, progress: Progress
    ) -> Iterator[dict[str, float]]:
        """Stop and continue the server when it is time, and yield what is left of the budget once a second."""
        is_away = False
        try:
            while (now_s := time.monotonic() - started) < self.day.day_s:
                should_be = self._is_away(now_s)
                if should_be != is_away:
                    os.kill(server.pid, signal.SIGSTOP if should_be else signal.SIGCONT)
                    is_away = should_be
                progress(f"{self.policy}: {now_s:.0f} of {self.day.day_s:.0f} s{', server away' if is_away else ''}")
                said = recorder.said(_NODE)
                yield {"at_s": now_s, **{name: float(said[name]) for name in _LEFT if said.get(name, "n/a") != "n/a"}}
                time.sleep(max(0.0, started + (int(now_s / _BIN_S) + 1) * _BIN_S - time.monotonic()))
        finally:
            os.kill(server.pid, signal.SIGCONT)

    def _figures(
        self, started_ns: int, results: Sequence[Recorded], samples: Sequence[dict[str, float]]
    ) -> dict[str, Any]:
        accuracy = {(f.file.name, v.name): v.accuracy for f in self.folders for v in f.catalog.variants}
        served = [result for result in results if not result.error]
        away = [self._is_away((result.arrived_ns - started_ns) / 1e9) for result in results]
        bins = int(np.ceil(self.day.day_s / _BIN_S))

        def per_second(chosen: Sequence[Recorded]) -> list[int]:
            at = [int((result.arrived_ns - started_ns) / 1e9 / _BIN_S) for result in chosen]
            return [int(n) for n in np.bincount([i for i in at if 0 <= i < bins], minlength=bins)]

        def share(chosen: Sequence[bool]) -> float | None:
            return float(np.mean(chosen)) if chosen else None

        return {
            "requests": len(results),
            "served": share([not result.error for result in results]),
            "served_connected": share([not r.error for r, gone in zip(results, away, strict=True) if not gone]),
            "served_disconnected": share([not r.error for r, gone in zip(results, away, strict=True) if gone]),
            "refused_why": _counted(result.error for result in results if result.error),
            "accuracy": float(np.mean([accuracy[r.model, r.variant.partition("@")[0]] for r in served]))
            if served
            else None,
            "where": _counted(result.where for result in served),
            "variants": _counted(f"{result.model}/{result.variant}" for result in served),
            "compute_ms": float(np.median([result.compute_ms for result in served])) if served else None,
            **{name: samples[-1].get(name) for name in _LEFT},
            "served_per_s": per_second(served),
            "refused_per_s": per_second([result for result in results if result.error]),
            "samples": samples,
        }

    def _is_away(self, at_s: float) -> bool:
        return any(begin <= at_s / self.day.day_s < end for begin, end in self.day.away)


def _counted(names: Iterator[str]) -> dict[str, int]:
    found, counts = np.unique(list(names), return_counts=True)
    return {str(name): int(number) for name, number in zip(found, counts, strict=True)}
