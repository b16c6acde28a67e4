# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a server keeps of catalogs for its robots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogs import TINY, made_catalog

pytest.importorskip("rclpy", reason="needs ROS 2")

from std_msgs.msg import Header

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.serving.node_configs import CatalogServerConfig
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import CatalogError, MessageError
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.nodes.conversions import encode, request_message
from cacheinf_ros.nodes.served_models import ServedModels


class Given:
    """Parameters without a node."""

    def get(self, kind: type[Any]) -> Any:
        return {EngineConfig: EngineConfig(threads=1), MatchingConfig: MatchingConfig()}[kind]


def ignore(name: str, text: str) -> None:
    pass


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return made_catalog(tmp_path_factory.mktemp("room"), "room", {Place.CLOUD: Cost(money=1.0)})


def served(catalog: CatalogFolder, memory_mb: float = 1000.0) -> ServedModels:
    config = CatalogServerConfig.checked(catalogs=[str(catalog.path)], catalog_memory_mb=memory_mb)
    parameters: Any = Given()
    return ServedModels(load_model(TINY), config, parameters)


def request(model: str, session: str = "robot") -> Any:
    data = encode("png", np.zeros((48, 64, 3), np.uint8), 90)
    return request_message(Header(), session=session, sequence=1, model=model, wire="png", data=data)


def test_loading_is_a_stage_of_the_first_result_only(catalog: CatalogFolder) -> None:
    models = served(catalog)
    first = models.run(request("room/original"), 1, ignore)
    second = models.run(request("room/original"), 2, ignore)
    assert "load" in first.engine.stage_ms and "load" not in second.engine.stage_ms
    assert second.engine.reuse_ratio == 1.0
    (ours,), (exact,) = (
        first.engine.outputs.values(),
        models.run(request(load_model(TINY).name), 3, ignore).engine.outputs.values(),
    )
    np.testing.assert_allclose(ours, exact, atol=1e-6)


def test_each_robot_has_its_own_cache_and_is_forgotten(catalog: CatalogFolder) -> None:
    models = served(catalog)
    models.run(request("room/original", "one"), 1, ignore)
    alone = models.used_bytes
    other = models.run(request("room/original", "other"), 1, ignore)
    assert other.engine.reuse_ratio == 0.0 and models.used_bytes == 2 * alone > 0
    models.forget("one")
    assert models.used_bytes == alone


def test_the_least_recently_used_is_dropped(catalog: CatalogFolder, tmp_path: Path) -> None:
    names = [variant.name for variant in catalog.catalog.variants][:2]
    models = served(catalog, memory_mb=1.0)
    models._capacity = 1.0  # bytes: there is room for what is asked, and nothing else
    for name in (*names, names[0]):
        assert "load" in models.run(request(f"room/{name}"), 1, ignore).engine.stage_ms
    assert models.used_bytes > 0


def test_what_is_not_there_is_refused(catalog: CatalogFolder) -> None:
    models = served(catalog)
    with pytest.raises(MessageError, match=r"has catalogs of room, not 'hall/original': start both with one model"):
        models.run(request("hall/original"), 1, ignore)
    with pytest.raises(CatalogError, match="has no variant 'better'"):
        models.run(request("room/better"), 1, ignore)
