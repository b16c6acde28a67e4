# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Requests are answered although a variant cannot be loaded, and within the device's memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from catalogs import made_catalog

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.serving import Announcer
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogBudgetConfig, CatalogConfig
from cacheinf_ros.catalog.serving.catalog_service import CatalogService
from cacheinf_ros.catalog.serving.device_models import DeviceModels, View
from cacheinf_ros.catalog.serving.serving_places import CloudAnswer, Places
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.pipeline.frame_result import FrameResult

DEVICE = {Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000)}
CLOUD = {Place.CLOUD: Cost(energy_j=1.0, money=1e-3)}


class Settings:
    """A stand-in for the node's parameters."""

    def __init__(self, folders: Sequence[CatalogFolder], **values: Any) -> None:
        catalogs = [str(folder.path) for folder in folders]
        self.configs: dict[type, Any] = {
            EngineConfig: EngineConfig.checked(mode=Mode.EXACT, threads=1),
            MatchingConfig: MatchingConfig(),
            CatalogBudgetConfig: CatalogBudgetConfig.checked(energy_budget_j=1e6, cloud_budget=1e6),
            CatalogConfig: CatalogConfig.checked(catalogs=catalogs, **values),
        }

    def get(self, cls: type) -> Any:
        return self.configs[cls]

    def change(self, **values: Any) -> None:
        self.configs[CatalogConfig] = self.configs[CatalogConfig].changed(**values)


class OneJouleEach:
    """Energy that can be counted: each measured piece of work takes 1 J."""

    def begin(self) -> None:
        return None

    def end(self, begun_j: float | None, took_ms: float, spent: Any) -> float:
        return 1.0


class Robot:
    """A service of catalogs without a node."""

    def __init__(self, folders: Sequence[CatalogFolder], cloud: Any = None, **values: Any) -> None:
        self.settings, self.notes, self.lines = Settings(folders, **values), {}, []
        parameters: Any = self.settings
        energy: Any = OneJouleEach()
        announcer = Announcer(self.notes.__setitem__, self.lines.append)
        self.device = DeviceModels(folders, parameters, announcer)
        self.service: CatalogService[FrameResult] = CatalogService(
            parameters.get(CatalogConfig).demands(folders), parameters,
            Places(device=self.device, split=None, cloud=cloud, server_load=None),
            energy, announcer, lambda view, result: result,
        )  # fmt: skip
        self._shown = 0

    @property
    def spent_j(self) -> float:
        return 1e6 - self.service.account.energy_j

    def serve(self, model: str) -> FrameResult:
        self._shown += 1
        view = View(image=np.full((48, 64, 3), self._shown, np.uint8), stamp_ns=self._shown)
        self.service.follow_parameters()
        return self.service.serve(model, view)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogFolder:
    """Write a catalog whose most accurate variant has lost its weights."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nor is its graph kept on this machine
    folder = made_catalog(tmp_path / "door", "door", DEVICE)
    (folder.path / "original.safetensors").unlink()
    return folder


def test_a_variant_that_cannot_be_loaded_leaves_its_requests_to_another(broken: CatalogFolder) -> None:
    robot = Robot([broken])
    found = [robot.serve("door") for _ in range(3)]
    assert [(result.variant, result.error) for result in found] == [("8bit", "")] * 3
    assert robot.spent_j == 1.0 + 2.0 + 2 * 1.0  # trying to load, loading and running the other, running it twice more
    told = [line for line in robot.lines if "original (device) is left out" in line]
    assert len(told) == 1 and "original.safetensors" in told[0]
    assert "original.safetensors" in robot.notes["door: not_loaded"]
    robot.service.improve()
    assert robot.serve("door").variant == "8bit"


def test_what_is_tried_in_idle_time_is_paid_for_and_leaves_requests_to_another(
    broken: CatalogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variant that serves was dropped before the better one turned out to be lost."""
    clock = SimpleNamespace(monotonic=lambda: now_s, perf_counter=time.perf_counter)
    monkeypatch.setattr("cacheinf_ros.catalog.serving.catalog_service.time", clock)
    now_s = 0.0
    robot = Robot([broken])
    for _ in range(2):
        assert robot.serve("door").variant == "8bit"
    before_j, now_s = robot.spent_j, 100.0
    with pytest.raises(CacheinfError, match="original of door cannot be loaded"):
        robot.service.improve()
    assert robot.spent_j == before_j + 1.0
    assert robot.service.used_bytes == 0
    assert robot.serve("door").variant == "8bit"
    assert len([line for line in robot.lines if "is left out" in line]) == 1


def test_where_nothing_can_be_loaded_each_variant_is_tried_once(broken: CatalogFolder) -> None:
    (broken.path / "8bit.safetensors").unlink()
    robot = Robot([broken])
    refused = "refused: no variant that can be reached could be loaded"
    assert robot.serve("door").error.startswith(refused)
    spent_j = robot.spent_j
    for _ in range(3):
        assert robot.serve("door").error.startswith(refused)
    assert robot.spent_j == spent_j


class Server:
    """A server that has some of the variants."""

    def __init__(self, *variants: str) -> None:
        self.variants = variants
        self.asked: list[str] = []
        self.settled: list[str] = []
        self.is_new: list[bool] = []
        self.is_full = self.given_up = self.is_lost = False
        self.probes = 0

    def is_up(self, model: str) -> bool:
        return not self.is_lost

    def settle(self, model: str) -> None:
        self.settled.append(model)

    def ask(self, model: str, variant: str, view: View, why: str, *, is_new: bool) -> CloudAnswer[FrameResult]:
        self.asked.append(variant)
        self.is_new.append(is_new)
        if self.given_up:
            return CloudAnswer(answer=None, money=0.0, why="it did not answer in time", replaces=True)
        if variant not in self.variants:
            why = "the server refuses: it has no such variant"
            return CloudAnswer(answer=None, money=0.0, why=why, pause_s=30.0, is_full=self.is_full)
        answer = FrameResult.failed(model, Mode.EXACT, "", where=f"server: {variant}")
        return CloudAnswer(answer=answer, money=0.0, class_id=2)

    def probe(self, model: str, view: View) -> float:
        self.probes += 1
        return 0.0

    def release(self, model: str) -> None:
        raise AssertionError("nothing is split here")


def test_a_variant_that_the_server_refuses_leaves_requests_to_what_it_has(tmp_path: Path) -> None:
    folder = made_catalog(tmp_path / "door", "door", CLOUD)
    server = Server("8bit")
    robot = Robot([folder], server, use_server=True)
    for _ in range(3):
        assert robot.serve("door").engine.where == "server: 8bit"
        robot.service.improve()
    assert server.asked == ["original", "8bit", "8bit", "8bit"]
    assert robot.notes["door: not_loaded"] == "original (cloud): the server refuses: it has no such variant"
    assert robot.device.seen["door"].latest.counts == {2: len(server.asked) - 1}, "what the server answers counts"


def test_a_variant_that_the_server_refuses_is_tried_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log had always said so; where the server only lacks a place, it is asked as often as at first."""
    clock = SimpleNamespace(monotonic=lambda: now_s, perf_counter=time.perf_counter)
    monkeypatch.setattr("cacheinf_ros.catalog.serving.catalog_service.time", clock)
    for is_full, tries_s in (
        (False, [0.0, 30.0, 90.0, 210.0]),
        (True, [0.0, 30.0, 60.0, 90.0, 120.0, 150.0, 180.0, 210.0]),
    ):
        now_s, server = 0.0, Server("8bit")
        server.is_full = is_full
        robot = Robot([made_catalog(tmp_path / str(is_full), "door", CLOUD)], server, use_server=True)
        tried = []
        for now_s in np.arange(0.0, 240.0, 10.0).tolist():
            server.asked.clear()
            robot.serve("door")
            with suppress(CacheinfError):
                robot.service.improve()
            tried += [now_s] * server.asked.count("original")
        assert tried == tries_s
        (told,) = [line for line in robot.lines if "is left out" in line]
        assert ("more seldom" in told) != is_full


def test_what_the_server_has_given_up_is_loaded_anew(tmp_path: Path) -> None:
    """A full server gives up a variant for another one, whose answer does not come in time."""
    server = Server("8bit")
    robot = Robot([made_catalog(tmp_path / "door", "door", CLOUD)], server, use_server=True)
    robot.serve("door")
    assert server.is_new == [True, True] and server.asked == ["original", "8bit"]
    robot.serve("door")
    assert server.is_new[2:] == [False]
    server.given_up = True
    assert robot.serve("door").error.startswith("refused: no variant runs on this device")
    server.given_up = False
    robot.serve("door")
    assert server.asked[-1] == "8bit" and server.is_new[-1], "it is a miss"
    assert server.settled == ["door"] * 4, "once for each request"


@pytest.mark.parametrize(("price", "budget", "is_probed"), [(0.0, 0.0, True), (1e-3, 0.0, False), (1e-3, 1e-3, True)])
def test_a_lost_server_is_probed_while_a_request_to_it_can_be_paid(
    price: float, budget: float, is_probed: bool, tmp_path: Path
) -> None:
    """Without a budget, which is enough where requests are free, a server that was lost once used to stay lost."""
    server = Server("original")
    folder = made_catalog(tmp_path / "door", "door", {Place.CLOUD: Cost(energy_j=1.0, money=price)})
    robot = Robot([folder], server, use_server=True)
    robot.settings.configs[CatalogBudgetConfig] = CatalogBudgetConfig.checked(energy_budget_j=1e6, cloud_budget=budget)
    server.is_lost = True
    robot.serve("door")
    assert server.probes == is_probed


def test_memory_holds_when_models_that_share_are_asked_at_different_rates(tmp_path: Path) -> None:
    """Three models fit only while two of them share their weights."""
    door, lamp, other = (made_catalog(tmp_path / name, name, DEVICE) for name in ("door", "lamp", "other"))
    robot = Robot([door, lamp, other], rates=[1.0, 1.0, 3.0])
    for model in ("door", "lamp", "other"):
        robot.serve(model)
    together = robot.service.used_bytes
    assert together < 30_000
    robot = Robot([door, lamp, other], rates=[1.0, 1.0, 3.0], device_memory_mb=together / 1e6)
    for model in ("door", "lamp", "other"):
        robot.serve(model)
    robot.settings.change(rates=[5.0, 1.0, 3.0])
    for model in ("door", "lamp", "other", "lamp", "door"):
        result = robot.serve(model)
        assert not result.error
        assert robot.service.used_bytes <= together
        loaded = robot.device._loaded
        assert model in loaded and 10_000 * len(loaded) <= together
