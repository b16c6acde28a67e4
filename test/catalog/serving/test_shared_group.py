# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models of several catalogs that begin alike are computed together on the device."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalogs import made_catalog

from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.catalog.serving.device_models import DeviceModels, View
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.graph import Model, model_of
from cacheinf_ros.matching import MatcherName, MatchingConfig
from cacheinf_ros.matching.matching_config import IDENTICAL
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.runner import Runner

NAMES = ("door", "lamp", "other")


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> list[CatalogFolder]:
    """Write three catalogs of the same network; the 8-bit variant of the last one has other weights."""
    folder, costs = tmp_path_factory.mktemp("catalogs"), {Place.DEVICE: Cost(memory_bytes=1)}
    door = made_catalog(folder / "door", "door", costs)
    for name in NAMES[1:]:
        path = Path(shutil.copytree(door.path, folder / name)) / "catalog.yaml"
        path.write_text(path.read_text().replace("name: door", f"name: {name}"))
    return [read_catalog(folder / name) for name in NAMES]


class Robot:
    """The device's models without a node, which see pictures that change in part."""

    def __init__(self, catalogs: Sequence[CatalogFolder], **values: Any) -> None:
        self.values = {"catalogs": [str(catalog.path) for catalog in catalogs], **values}
        self.notes: dict[str, str] = {}
        self.lines: list[str] = []
        parameters: Any = self
        self.models = DeviceModels(catalogs, parameters, Announcer(self.notes.__setitem__, self.lines.append))
        self._image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
        self._shown = 0

    def get(self, kind: type[Any]) -> Any:
        return {
            EngineConfig: EngineConfig.checked(threads=1, mode=Mode.EXACT),
            MatchingConfig: MatchingConfig(matcher=MatcherName.IDENTITY, threshold=IDENTICAL),
            CatalogConfig: CatalogConfig.checked(**self.values),
        }[kind]

    def show(self, *models: str) -> dict[str, FrameResult]:
        """Return each model's result for the next picture."""
        self._shown += 1
        self._image = self._image.copy()
        self._image[:10, :10] = self._shown
        view = View(image=self._image, stamp_ns=self._shown)
        return {model: self.models.run(model, view) for model in models}


def outputs(result: FrameResult) -> np.ndarray[Any, Any]:
    (values,) = result.engine.outputs.values()
    return np.array(values)


def test_what_begins_alike_is_computed_once(catalogs: list[CatalogFolder]) -> None:
    together, apart = Robot(catalogs), Robot(catalogs, share_operators=False)
    for robot in (together, apart):
        for name, variant in zip(NAMES, ("original", "original", "8bit"), strict=True):
            robot.models.load(name, variant)
    assert together.lines == ["door, lamp begin alike and are computed together: 50% of their operations"]
    assert not apart.lines
    assert [together.notes[f"{name}: shares"] for name in NAMES] == ["lamp", "door", "n/a"]
    for number in range(4):
        ours, theirs = together.show(*NAMES), apart.show(*NAMES)
        for name in NAMES:
            assert ours[name].model == name and ours[name].engine.outputs.keys() == theirs[name].engine.outputs.keys()
            np.testing.assert_allclose(outputs(ours[name]), outputs(theirs[name]), rtol=1e-5, atol=1e-6)
            assert [c.id for c in ours[name].decoded.classes] == [c.id for c in theirs[name].decoded.classes]
        assert "compute" in ours["door"].engine.stage_ms and ours["lamp"].engine.active_share == 0
        assert "compute" not in ours["lamp"].engine.stage_ms and "computed with" in ours["lamp"].why
        if number:
            assert 0 < ours["door"].engine.active_share < 1 and ours["door"].engine.reuse_ratio > 0.9


def test_it_is_exact_whoever_is_asked(catalogs: list[CatalogFolder]) -> None:
    """Not every model is asked about every picture, and none twice about the same one except by mistake."""
    together, apart = Robot(catalogs), Robot(catalogs, share_operators=False)
    for robot in (together, apart):
        for name in NAMES[:2]:
            robot.models.load(name, "original")
    for asked in (["door"], ["lamp"], ["lamp", "door"], ["door", "door"], [], ["door", "lamp"]):
        ours, theirs = together.show(*asked), apart.show(*asked)
        for name in asked:
            np.testing.assert_allclose(outputs(ours[name]), outputs(theirs[name]), rtol=1e-5, atol=1e-6)


def test_who_leaves_is_not_computed_any_more(catalogs: list[CatalogFolder]) -> None:
    robot = Robot(catalogs)
    for name in NAMES[:2]:
        robot.models.load(name, "original")
    before = robot.show("door", "lamp")
    robot.models.load("lamp", "8bit")
    after = robot.show("door", "lamp")
    assert robot.notes["door: shares"] == "n/a"
    assert after["lamp"].variant == "8bit" and "compute" in after["lamp"].engine.stage_ms
    assert outputs(after["door"]).shape == outputs(before["door"]).shape
    robot.models.drop("door")
    assert outputs(robot.show("lamp")["lamp"]).size


def test_what_was_seen_before_is_forgotten_by_the_whole_group(catalogs: list[CatalogFolder]) -> None:
    robot = Robot(catalogs)
    for name in NAMES[:2]:
        robot.models.load(name, "original")
    assert [robot.show("door", "lamp")["door"].engine.active_share < 1 for _ in range(3)] == [False, True, True]
    robot.models._loaded["door"].cached.forget()
    assert robot.show("lamp", "door")["lamp"].engine.active_share == 1
    assert robot.show("door", "lamp")["door"].engine.active_share < 1


def test_what_is_computed_in_int8_is_so_apart(tmp_path: Path) -> None:
    costs = {Place.DEVICE: Cost(memory_bytes=1)}
    robot = Robot([made_catalog(tmp_path / name, name, costs, with_int8=True) for name in NAMES[:2]])
    robot.models.load("door", "int8")
    robot.models.load("lamp", "8bit")
    found = [robot.show("door", "lamp") for _ in range(3)][-1]
    assert not robot.lines and [found[name].variant for name in NAMES[:2]] == ["int8", "8bit"]
    assert all("compute" in found[name].engine.stage_ms for name in NAMES[:2])
    in_int8, in_floats = outputs(found["door"]), outputs(found["lamp"])
    assert not np.array_equal(in_int8, in_floats)
    np.testing.assert_allclose(in_int8, in_floats, rtol=0.1, atol=0.1)


def test_other_rates_are_computed_apart(catalogs: list[CatalogFolder]) -> None:
    robot = Robot(catalogs, rates=[5.0, 1.0, 1.0])
    for name in NAMES[:2]:
        robot.models.load(name, "original")
    assert not robot.lines
    robot = Robot(catalogs)
    for name in NAMES[:2]:
        robot.models.load(name, "original")
    robot.values["rates"] = [5.0, 1.0, 1.0]
    robot.models.regroup()
    for name in NAMES[:2]:
        robot.models.load(name, "original")  # they were dropped: the next request loads them
    assert len(robot.lines) == 1 and robot.notes["door: shares"] == "n/a"


def test_models_whose_rates_become_equal_are_computed_together(catalogs: list[CatalogFolder]) -> None:
    robot = Robot(catalogs, rates=[5.0, 1.0, 1.0])
    for name, variant in zip(NAMES, ("original", "original", "8bit"), strict=True):
        robot.models.load(name, variant)
    robot.values["rates"] = [1.0]
    robot.models.regroup()
    assert [robot.models.load(name, "original") for name in NAMES[:2]].count(True) == 1
    assert robot.lines and robot.notes["door: shares"] == "lamp"
    assert not robot.models.load("other", "8bit")  # it begins otherwise, and was left alone


def test_regrouping_leaves_alone_what_is_computed_apart_by_wish(catalogs: list[CatalogFolder]) -> None:
    robot = Robot(catalogs, rates=[5.0, 1.0, 1.0], share_operators=False)
    for name in NAMES[:2]:
        robot.models.load(name, "original")
    robot.values["rates"] = [1.0]
    robot.models.regroup()
    assert not any(robot.models.load(name, "original") for name in NAMES[:2])


def test_what_is_shared_is_that_of_the_members_at_present(
    catalogs: list[CatalogFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third network shares only the first convolution; once it has left, the two others share as before."""
    original = CatalogFolder.network

    def network(folder: CatalogFolder, name: str) -> Model:
        if folder.file.name != "other":
            return original(folder, name)
        model = folder.load(name)
        module = copy.deepcopy(model.module)
        with torch.no_grad():
            list(module.parameters())[2].add_(1.0)
        return model_of(module, model.card)

    monkeypatch.setattr(CatalogFolder, "network", network)
    robot = Robot(catalogs)
    for name in NAMES[:2]:
        robot.models.load(name, "original")
    (of_two,) = robot.models.shared_parts()
    robot.models.load("other", "original")
    (of_three,) = robot.models.shared_parts()
    assert of_three.size < of_two.size and set(of_three.variants) == set(NAMES)
    robot.models.drop("other")
    assert robot.models.shared_parts() == (of_two,)


def test_what_is_not_used_any_more_ends_its_work_in_the_background(
    catalogs: list[CatalogFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Runner] = []
    monkeypatch.setattr(Runner, "close", lambda runner, **_: closed.append(runner))
    robot = Robot(catalogs)
    robot.models.load("door", "original")
    alone = robot.models._loaded["door"].cached.runner
    robot.models.load("lamp", "original")
    together = robot.models._loaded["door"].cached.runner
    assert closed == [alone]
    robot.models.drop("lamp")
    assert closed == [alone, together]
    alone_again = robot.models._loaded["door"].cached.runner
    robot.models.drop_all()
    assert closed == [alone, together, alone_again]


def test_models_with_the_same_weights_have_one_count_for_other_robots(catalogs: list[CatalogFolder]) -> None:
    """Other robots know a model by its weights, whatever it is called."""
    models = Robot(catalogs).models
    assert set(models.weights) == set(NAMES) and len(set(models.weights.values())) == 1
    for second in range(20):
        models.heard(NAMES[0], 1, second * 10**9)
        models.heard(NAMES[1], 1 + second % 2, second * 10**9)
    assert list(models.news().values()) == [{1: 20 + 10, 2: 10}]
    assert not any(models.news().values())
