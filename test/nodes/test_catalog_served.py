# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of what a server keeps of catalogs for its robots."""

from __future__ import annotations

import gc
import importlib
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogs import TINY, made_catalog
from triton_devices import TRITON

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels, identity_of_variant
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.gpu.camera_batch import CameraBatch
from cacheinf_ros.errors import CatalogError, MessageError
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes import whole_frame_models
from cacheinf_ros.nodes.conversions import encode
from cacheinf_ros.nodes.packet_messages import result_from, whole_frame
from cacheinf_ros.nodes.results import outputs_from
from cacheinf_ros.nodes.whole_frame_models import WholeFrameModels
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.frame_result import FrameResult
from cacheinf_ros.pipeline.health import Health, Level, WorkState
from cacheinf_ros.pipeline.node_configs import ModelConfig, OutputLimitConfig

OTHER = f"{Path(__file__).parents[1] / 'networks' / 'small.py'}:mixed"
IMAGE = np.zeros((48, 64, 3), np.uint8)


class Given:
    """Parameters that need no node."""

    def __init__(self, cameras: int = 1) -> None:
        self.cameras = cameras

    def get(self, kind: type[Any]) -> Any:
        known = {
            EngineConfig: EngineConfig(threads=1),
            MatchingConfig: MatchingConfig(),
            ModelConfig: ModelConfig(cameras=self.cameras),
            OutputLimitConfig: OutputLimitConfig(),
        }
        return known[kind]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return made_catalog(tmp_path_factory.mktemp("room"), "room", {Place.CLOUD: Cost(money=1.0)})


def served(catalog: CatalogFolder, memory_mb: float = 1000.0) -> WholeFrameModels:
    """Return the models of a server whose own model is not in the catalog; hashes tell the models apart."""
    config = CatalogServerConfig.checked(catalogs=[str(catalog.path)], catalog_memory_mb=memory_mb)
    parameters: Any = Given()
    models = SplitModels(load_model(OTHER, input_size=(61, 47)), config.read())
    return WholeFrameModels(models, 1e6 * config.catalog_memory_mb, parameters, Health())


def opened(models: WholeFrameModels, catalog: CatalogFolder, variant: str = "original", session: str = "robot") -> str:
    models.open(session, identity_of_variant(catalog, variant))
    return session


def run(models: WholeFrameModels, session: str, stamp_ns: int) -> FrameResult:
    """Return the answer of the session that has this name now."""
    return models._run(models._asked[session], IMAGE, stamp_ns)


def test_loading_is_a_stage_of_the_first_result_only(catalog: CatalogFolder) -> None:
    models = served(catalog)
    session = opened(models, catalog)
    first, second = run(models, session, 1), run(models, session, 2)
    assert "load" in first.engine.stage_ms and "load" not in second.engine.stage_ms
    assert second.engine.reuse_ratio == 1.0
    own = SplitModels(load_model(TINY), [])
    parameters: Any = Given()
    alone = WholeFrameModels(own, 1.0, parameters, Health())
    alone.open("robot", Identity.of(load_model(TINY)))
    exact = run(alone, "robot", 3)
    assert "load" not in exact.engine.stage_ms and alone.used_bytes == 0  # the server's own is always there
    np.testing.assert_allclose(*(next(iter(result.engine.outputs.values())) for result in (first, exact)), atol=1e-6)


def test_on_a_gpu_robots_with_one_model_share_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    monkeypatch.setattr(chooses, "choose_backend", lambda *_: TRITON)
    model, parameters = load_model(TINY), Given(cameras=2)
    models = WholeFrameModels(SplitModels(model, []), 1.0, parameters, Health())  # type: ignore[arg-type]
    for session in ("one", "other"):
        models.open(session, Identity.of(load_model(TINY)))
    outputs = [next(iter(run(models, session, 1).engine.outputs.values())) for session in ("one", "other")]
    np.testing.assert_array_equal(*outputs)
    values = [shared.value for _, shared in model.shared.held()]
    assert [value.passes for value in values if isinstance(value, CameraBatch)] == [2]


def test_each_robot_has_its_own_cache_and_is_forgotten(catalog: CatalogFolder) -> None:
    models = served(catalog)
    run(models, opened(models, catalog, session="one"), 1)
    alone = models.used_bytes
    other = run(models, opened(models, catalog, session="other"), 1)
    assert other.engine.reuse_ratio == 0.0 and models.used_bytes == 2 * alone > 0
    gone = models._asked["one"]
    models.forget("one")
    assert models.used_bytes == alone
    with pytest.raises(MessageError, match="one was forgotten"):
        models._run(gone, IMAGE, 2)


def test_a_late_frame_of_a_session_does_not_meet_another_one_of_its_name() -> None:
    health, parameters = Health(), Given()
    models = WholeFrameModels(SplitModels(load_model(TINY), []), 1.0, parameters, health)  # type: ignore[arg-type]
    first = models.open("robot", Identity.of(load_model(TINY)))
    models.forget("robot")
    second = models.open("robot", Identity.of(load_model(TINY)))
    with pytest.raises(MessageError, match="robot was forgotten"):
        first(whole_frame(1, encode("png", IMAGE, 90)))
    assert result_from(second(whole_frame(1, encode("png", IMAGE, 90)))).reuse_ratio == 0.0, "its cache is untouched"


def test_an_error_stands_with_its_session_whatever_others_do() -> None:
    health, parameters = Health(), Given()
    models = WholeFrameModels(SplitModels(load_model(TINY), []), 1.0, parameters, health)  # type: ignore[arg-type]
    bad, good = (models.open(session, Identity.of(load_model(TINY))) for session in ("bad", "good"))

    def told() -> tuple[Level, str]:
        status = health.status(WorkState(), latency_budget_ms=1e9, stuck_after_s=10.0, now_s=0.0)
        return status.level, status.message.split(":")[0]

    with pytest.raises(MessageError):
        bad(whole_frame(1, b"no picture"))
    good(whole_frame(1, encode("png", IMAGE, 90)))
    assert told() == (Level.ERROR, "bad")
    models.forget("bad")
    assert told()[0] is Level.OK
    with pytest.raises(MessageError):
        bad(whole_frame(2, encode("png", IMAGE, 90)))  # its thread may be late
    assert [told()[0] for _ in range(2)] == [Level.ERROR, Level.OK]


def test_a_robot_that_is_forgotten_leaves_no_engine_behind(catalog: CatalogFolder) -> None:
    """The engine must go at once: in a framework with a million objects the cycle collector seldom runs."""
    models = served(catalog)
    run(models, opened(models, catalog, session="one"), 1)
    engine = weakref.ref(models._loaded["one"]._cached.runner.engine)
    gc.disable()
    try:
        models.forget("one")
        assert engine() is None
    finally:
        gc.enable()


def test_the_least_recently_used_is_dropped(catalog: CatalogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_frame_models, "ACTIVE_S", 0.0)  # as if seconds passed after each frame
    names = [variant.name for variant in catalog.catalog.variants][:2]
    models = served(catalog, memory_mb=1.0)
    models._capacity = 1.0  # bytes: room for the requested model only
    for name in names:
        opened(models, catalog, name, session=name)
    run(models, names[1], 1)
    for name in (*names, names[0]):
        is_new = name != names[0] or models._loaded.get(name) is None
        assert ("load" in run(models, name, 2).engine.stage_ms) == is_new
    assert len(models._loaded) == 1
    assert models.used_bytes > 0


def test_a_model_at_work_makes_no_room_for_another(catalog: CatalogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many robots are at work models were dropped and compiled again in each frame of each."""
    models = served(catalog)
    models._capacity = 1.0  # bytes: room for one model only
    run(models, opened(models, catalog, session="one"), 1)
    with pytest.raises(CatalogError, match="no memory left for another model"):
        models.open("other", identity_of_variant(catalog, "original"))
    assert list(models._loaded) == list(models._asked) == ["one"]
    assert run(models, "one", 2).engine.reuse_ratio == 1.0, "its cache is untouched"
    models._loaded["one"].used_s -= 6.0  # it has been idle for longer than five seconds
    run(models, opened(models, catalog, session="other"), 3)
    assert list(models._loaded) == ["other"]
    found: list[str] = []
    monkeypatch.setattr(models._models, "find", lambda *_, **__: found.append("loaded"))
    with pytest.raises(CatalogError, match="no memory left for another model"):
        run(models, "one", 4)
    assert not found, "it is not loaded in vain"
    models.forget("one")
    assert not models._dropped


def test_what_is_not_there_is_refused_whatever_its_name(catalog: CatalogFolder) -> None:
    models = served(catalog)
    for name in ("hall/original", identity_of_variant(catalog, "original").model):
        with pytest.raises(MessageError, match=f"has catalogs of room, the robot '{name}' with another graph"):
            models.open("robot", Identity(model=name, network="0" * 32))
    with pytest.raises(CatalogError, match="has no variant 'better'"):
        identity_of_variant(catalog, "better")
    assert not models._asked


def test_a_frame_comes_as_a_picture_and_goes_back_as_a_result(catalog: CatalogFolder) -> None:
    models = served(catalog)
    answer = models.open("robot", identity_of_variant(catalog, "original"))
    message = result_from(answer(whole_frame(1, encode("png", IMAGE, 90))))
    assert message.where == "server"
    (ours,), (exact,) = outputs_from(message).values(), run(models, "robot", 2).engine.outputs.values()
    np.testing.assert_allclose(ours, exact, atol=1e-6)
    for content in (b"", b"12345678", whole_frame(3, b"no picture")):
        with pytest.raises(MessageError):
            answer(content)
    for content in (b"", b"12345678"):
        with pytest.raises(MessageError):
            result_from(content)
