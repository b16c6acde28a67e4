# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A specialist in the node comes with a skew, says that it answers, and goes with the skew."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogs import catalog_command, made_catalog
from coloured import LABELS, SHALLOW, made_specialise, picture

pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import image_message
from std_msgs.msg import Header

from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogConfig
from cacheinf_ros.catalog.serving.device_models import DeviceModels, View
from cacheinf_ros.catalog.specialists.specialiser import SkewRules
from cacheinf_ros.catalog.specialists.specialist_folder import SpecialiseFolder, write_specialise
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.harness import NodeGroup
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.conversions import time_message
from cacheinf_ros.nodes.results import outputs_from
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.polling import wait_until
from cacheinf_ros.pipeline.runner import Runner

START_S = DEADLINE_S = 60.0
NAMES = ("specialising", "specialist_classes", "specialist_passed")
RED, GREEN, BLUE = (LABELS.index(name) for name in ("red", "green", "blue"))
HASTY = SkewRules(window_s=4.0, results=10, watch_s=2.0, watch_results=5, audit_every=5, pause_s=0.0)
STEP_NS = 250_000_000  # the camera's time, so that windows of seconds take fewer


class Settings:
    """A stand-in for the node's parameters."""

    def __init__(self, catalog: CatalogFolder) -> None:
        self._folder = str(catalog.path)
        self.configs: dict[type, Any] = {
            EngineConfig: EngineConfig.checked(mode=Mode.EXACT, threads=1),
            MatchingConfig: MatchingConfig(),
            CatalogConfig: CatalogConfig.checked(catalogs=[self._folder]),
        }

    def get(self, cls: type) -> Any:
        return self.configs[cls]

    def specialise(self, value: bool) -> None:
        self.configs[CatalogConfig] = CatalogConfig.checked(catalogs=[self._folder], specialise=value)


class Device:
    """The models of a node, and what they report."""

    def __init__(self, catalog: CatalogFolder, **changes: Any) -> None:
        self.settings, self.notes, self.lines = Settings(catalog), {}, []
        said: Any = self.settings
        announcer, rules = Announcer(self.notes.__setitem__, self.lines.append), replace(HASTY, **changes)
        self.models = DeviceModels([catalog], said, announcer, rules=rules)
        self.name, self.numbers = catalog.file.name, count(1)

    def look(self, *classes: int, until: Callable[[FrameResult], bool] = lambda _: False) -> list[FrameResult]:
        """Show pictures of these classes in turn, until a result meets the condition or 60 have been shown."""
        results = []
        for _ in range(60):
            number = next(self.numbers)
            class_id = classes[number % len(classes)]
            view = View(image=picture(class_id, number % 4), stamp_ns=number * STEP_NS)
            results.append(self.models.run(self.name, view))
            decoded = results[-1].decoded
            assert decoded is not None and decoded.classes[0].name == LABELS[class_id]
            if until(results[-1]):
                break
            if self.notes[f"{self.name}: specialising"] == "preparing":
                time.sleep(0.05)  # it is made in real time
        return results

    def note(self, name: str) -> str:
        return self.notes[f"{self.name}: {name}"]


def by_specialist(result: FrameResult) -> bool:
    return result.variant.endswith("@specialist")


def test_a_specialist_answers_while_a_skew_lasts(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    device = Device(coloured[0])
    device.models.load("colours", "original")
    results = device.look(RED, RED, GREEN, until=by_specialist)
    assert results[-1].variant == "original@specialist" and {r.variant for r in results[:-1]} == {"original"}
    assert set(results[-1].engine.stage_ms) == {"match", "specialist"}
    (output,) = results[-1].engine.outputs.values()
    (before,) = results[0].engine.outputs.values()
    assert output.shape == before.shape and list(results[-1].engine.outputs) == list(results[0].engine.outputs)
    assert device.note("specialising") == "specialised" and device.note("specialist_classes") == "red, green"
    results = device.look(RED, RED, GREEN)
    alone = sum(by_specialist(result) for result in results)
    assert alone >= 40  # the others were checked or passed on
    assert all({"specialist", "compute"} <= set(r.engine.stage_ms) for r in results if not by_specialist(r))
    assert float(device.note("specialist_passed")) < 0.3
    device.look(BLUE, until=lambda _: device.note("specialising") != "specialised")
    assert device.note("specialist_classes") == "n/a"
    assert [line.partition(":")[0] for line in device.lines] == ["colours"] * 2
    assert "a specialist for red, green answers first, from relu; 0.5" in device.lines[0]
    assert "is withdrawn: its classes make up" in device.lines[1]
    assert not any(by_specialist(result) for result in device.look(BLUE)[:1])


def test_a_variant_of_the_catalog_is_specialised(tmp_path: Path) -> None:
    """The small trunk is another variant's, which is loaded for it; before that variant itself there is none."""
    catalog, _ = made_specialise(tmp_path, trunk_of=SHALLOW.name, recipes=[SHALLOW])
    device = Device(catalog)
    device.models.load("colours", "original")
    results = device.look(RED, RED, GREEN, until=by_specialist)
    assert results[-1].variant == "original@specialist"
    assert f"a specialist for red, green answers first, from relu of {SHALLOW.name}; 0.5" in device.lines[0]
    device.models.load("colours", SHALLOW.name)
    assert device.note("specialising") == f"none: no small trunk is faster than {SHALLOW.name}"
    assert {result.variant for result in device.look(RED, RED, GREEN)} == {SHALLOW.name}


def test_other_trunks_do_where_a_variant_has_vanished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says once what is missing, and the original's own trunk answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nor is its graph kept on this machine
    catalog, folder = made_specialise(tmp_path / "colours", recipes=[SHALLOW])
    own, (pair, _) = folder.file.trunks[0], folder.file.pairs
    other, useful = own.changed(variant=SHALLOW.name), pair.trunks[0]
    shutil.copy(folder.path / "trunk-1.safetensors", folder.path / "trunk-2.safetensors")
    pairs = [pair.changed(trunks=[useful.changed(variant=SHALLOW.name), useful])]
    write_specialise(catalog, folder.file.changed(trunks=[own, other], pairs=pairs))
    device = Device(catalog)
    device.models.load("colours", "original")
    (catalog.path / f"{SHALLOW.name}.safetensors").unlink()
    assert by_specialist(device.look(RED, RED, GREEN, until=by_specialist)[-1])
    assert f"colours: small trunks are missing: {SHALLOW.name} cannot be loaded: " in device.lines[0]
    assert "a specialist for red, green answers first, from relu; 0.5" in device.lines[1] and len(device.lines) == 2


def test_what_is_dropped_leaves_nothing(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    device = Device(coloured[0])
    device.models.load("colours", "original")
    device.look(RED, RED, GREEN, until=by_specialist)
    device.models.load("colours", "8bit")
    assert device.lines[-1].endswith("is withdrawn: original is not loaded any more")
    assert device.note("specialising") == "generic" and device.note("specialist_classes") == "n/a"
    results = device.look(RED, RED, GREEN, until=by_specialist)
    assert {result.variant for result in results} == {"8bit", "8bit@specialist"}
    device.models.drop("colours")
    assert [device.note(name) for name in NAMES] == ["n/a"] * 3


def test_what_the_server_answers_counts(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    """A variant that is loaded after the server was lost need not see the skew anew."""
    device = Device(coloured[0])
    for number in islice(device.numbers, 20):
        device.models.heard("colours", (RED, RED, GREEN)[number % 3], number * STEP_NS)
    device.models.load("colours", "original")
    (result,) = device.look(RED, until=lambda _: device.note("specialising") == "preparing")
    assert result.variant == "original"
    device.look(RED, RED, GREEN, until=by_specialist)
    for number in islice(device.numbers, 20):  # the server answers again, and sees something else
        device.models.heard("colours", BLUE, number * STEP_NS)
    device.look(BLUE, until=lambda _: device.note("specialising") != "specialised")
    assert "is withdrawn: its classes make up" in device.lines[-1]


def test_it_can_be_switched_off_and_on_again(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    device = Device(coloured[0])
    device.models.load("colours", "original")
    device.look(RED, RED, GREEN, until=by_specialist)
    device.settings.specialise(False)
    assert not any(by_specialist(result) for result in device.look(RED, RED, GREEN))
    assert device.note("specialising") == "off" and device.lines[-1].endswith("withdrawn: specialise is false")
    device.settings.specialise(True)
    assert by_specialist(device.look(RED, RED, GREEN, until=by_specialist)[-1])


def test_what_is_not_used_any_more_ends_its_work_in_the_background(
    coloured: tuple[CatalogFolder, SpecialiseFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Runner] = []
    monkeypatch.setattr(Runner, "close", lambda runner, **_: closed.append(runner))
    device = Device(coloured[0])
    device.models.load("colours", "original")
    cached: Any = device.models._loaded["colours"].cached
    device.look(RED, RED, GREEN, until=by_specialist)
    small = cached._small.cached.runner
    device.settings.specialise(False)
    device.look(RED, until=lambda _: True)
    assert closed == [small]
    device.models.drop("colours")
    assert closed == [small, cached.runner]


def test_a_refusal_says_why(coloured: tuple[CatalogFolder, SpecialiseFolder]) -> None:
    """The small trunk takes 0.5 ms, and the model is said to take only 0.51 ms."""
    device = Device(coloured[0], pause_s=1000.0)
    device.models.load("colours", "original")
    cached: Any = device.models._loaded["colours"].cached
    folder = cached._source.folder
    folder = replace(folder, file=folder.file.changed(variant_ms={"original": 0.51}))
    cached._source = replace(cached._source, folder=folder)
    device.look(RED, RED, GREEN)
    assert device.note("specialising") == "generic" and len(device.lines) == 1
    assert "colours: no specialist for red, green: relu: to be as accurate" in device.lines[0]


def test_what_vanishes_while_it_runs_is_named(coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path) -> None:
    shutil.copytree(coloured[0].path, tmp_path / "copy")
    device = Device(read_catalog(tmp_path / "copy"))
    device.models.load("colours", "original")
    (tmp_path / "copy" / "specialise" / "trunk-1.safetensors").unlink()
    device.look(RED, RED, GREEN, until=lambda _: bool(device.lines))
    assert "no specialist for red, green: it could not be made" in device.lines[0]
    assert "trunk-1.safetensors does not exist" in device.lines[0]
    device.models.load("colours", "8bit")  # specialists are optional
    assert "trunk-1.safetensors does not exist; build the catalog anew" in device.note("specialising")
    assert "no specialists for 8bit: " in device.lines[-1]
    assert {result.variant for result in device.look(RED)[:3]} == {"8bit"}


def test_an_original_that_vanishes_is_named(
    coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original's trunks are needed before any variant of it; requests are still answered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nor is its graph kept on this machine
    shutil.copytree(coloured[0].path, tmp_path / "copy")
    device = Device(read_catalog(tmp_path / "copy"))
    device.models.load("colours", "8bit")
    (tmp_path / "copy" / "original.safetensors").unlink()
    results = device.look(RED, RED, GREEN, until=lambda _: bool(device.lines))
    assert results and "the original cannot be loaded: weights" in device.lines[0]
    assert device.note("specialising") == "generic"


def test_catalogs_without_are_left_alone(coloured: tuple[CatalogFolder, SpecialiseFolder], tmp_path: Path) -> None:
    from cacheinf_ros.catalog.variant import Cost, Place

    device = Device(made_catalog(tmp_path / "tiny", "tiny", {Place.DEVICE: Cost(energy_j=1.0)}))
    device.models.load("tiny", "original")
    view = View(image=np.zeros((48, 64, 3), np.uint8), stamp_ns=1)
    assert device.models.run("tiny", view).variant == "original"
    assert not any("special" in name for name in device.notes)


@pytest.fixture(scope="module")
def robot(nodes: NodeGroup, coloured: tuple[CatalogFolder, SpecialiseFolder]) -> Iterator[Any]:
    node = nodes.start(catalog_command([str(coloured[0].path)], rates=[100.0], outputs="all"))
    node.wait_ready(START_S)
    yield node
    assert node.stop() == 0
    assert "Traceback" not in node.output


def test_results_say_who_answered(robot: Any, station: Any) -> None:
    """The camera shows red and green, then only blue."""
    numbers, shown = count(1), {}

    def message(class_id: int) -> Any:
        number = next(numbers)
        stamp = number * STEP_NS
        shown[stamp] = class_id
        return image_message(Header(stamp=time_message(stamp), frame_id="camera"), picture(class_id, number % 4))

    def film(*classes: int, until: Callable[[list[Any]], bool]) -> list[Any]:
        station.clear()
        deadline = time.monotonic() + DEADLINE_S
        while not until(station.results):
            assert time.monotonic() < deadline, (robot.output, [r.variant for r in station.results[-5:]])
            before = len(station.results)
            station.publish(message(classes[before % len(classes)]))
            wait_until(lambda: len(station.results) > before, 1.0)  # noqa: B023  called at once
        return list(station.results)

    station.wait_for_nodes(message(RED), subscribers=1)
    results = film(
        RED, RED, GREEN, until=lambda results: sum(r.variant == "original@specialist" for r in results) >= 10
    )
    assert wait_until(lambda: "a specialist for red, green answers first" in robot.output, DEADLINE_S)

    def said() -> dict[str, str]:
        return dict(station.said("catalog_inference"))

    assert wait_until(lambda: said().get("colours: specialising") == "specialised", DEADLINE_S)
    assert said()["colours: specialist_classes"] == "red, green"
    results += film(BLUE, until=lambda _: "is withdrawn: its classes make up" in robot.output)
    results += film(BLUE, until=lambda results: len(results) >= 5)
    assert not any(result.error for result in results)
    assert {result.variant for result in results} == {"original", "original@specialist"}
    assert all(result.variant == "original" for result in results[-2:])
    for result in results:
        stamp = result.header.stamp.sec * 1_000_000_000 + result.header.stamp.nanosec
        assert result.class_names[0] == LABELS[shown[stamp]] and result.where == "local"
        (output,) = outputs_from(result).values()
        assert output.shape == (1, 8) and int(output.argmax()) == result.class_ids[0]
