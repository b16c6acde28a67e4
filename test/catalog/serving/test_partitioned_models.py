# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server finds the models whose frames it can share by their hashes, without having loaded them."""

from __future__ import annotations

from pathlib import Path

import pytest
from catalogs import TINY, made_catalog

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.errors import CatalogError, MessageError
from cacheinf_ros.graph import Model, ModelCard, load_model
from cacheinf_ros.graph.known_models import possible_cards
from cacheinf_ros.offload import Identity

SMALL = "w8"
OTHER = f"{Path(__file__).parents[2] / 'networks' / 'small.py'}:mixed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return made_catalog(tmp_path_factory.mktemp("room"), "room", {Place.SPLIT: Cost(money=1.0), Place.CLOUD: Cost()})


@pytest.fixture(scope="module")
def own() -> Model:
    return load_model(OTHER, input_size=(61, 47))


def test_each_variant_is_found_by_what_the_robot_greets_with(folder: CatalogFolder, own: Model) -> None:
    models = SplitModels(own, [folder])
    for variant in folder.catalog.variants:
        asked = Identity.of(folder.load(variant.name))
        assert Identity.of(models.find(asked)).network == asked.network
    assert models.find(Identity.of(own)) is own


def test_catalogs_that_are_offered_later_take_the_place_of_the_first(folder: CatalogFolder, own: Model) -> None:
    models = SplitModels(own, [])
    asked = Identity.of(folder.load("original"))
    with pytest.raises(MessageError):
        models.find(asked)
    models.offer([folder])
    assert Identity.of(models.find(asked)).network == asked.network
    models.offer([])
    with pytest.raises(MessageError):
        models.find(asked)


def test_nothing_is_loaded_before_it_is_asked_for(
    folder: CatalogFolder, own: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(folder: CatalogFolder, name: str) -> Model:
        raise CatalogError(f"{name} is loaded")

    asked = Identity.of(folder.load("original"))
    monkeypatch.setattr(CatalogFolder, "network", load)
    models = SplitModels(own, [folder])
    with pytest.raises(CatalogError, match="original is loaded"):
        models.find(asked)


def test_what_is_not_there_is_refused(folder: CatalogFolder, own: Model) -> None:
    for models, said in ((SplitModels(own, []), "mixed', the robot"), (SplitModels(own, [folder]), "catalogs of room")):
        with pytest.raises(MessageError, match=f"{said}.*start both with the same model"):
            models.find(Identity(model="hall", network="0" * 32))


def test_a_robot_that_prepares_images_otherwise_is_refused(folder: CatalogFolder, own: Model) -> None:
    model = folder.load("original")
    other = Model(module=model.module, graph=model.graph, card=model.card.model_copy(update={"mean": (1.0, 2.0, 3.0)}))
    with pytest.raises(MessageError, match="or card"):
        SplitModels(own, [folder]).find(Identity.of(other))


def test_cards_that_say_nothing_may_be_of_a_known_detector() -> None:
    bare = ModelCard(name="m", factory="m", input_size=(48, 64))
    assert len(possible_cards(bare)) == 12 and possible_cards(bare)[0] is bare
    assert possible_cards(load_model(TINY).card.changed(mean=(0.0, 0.0, 0.0)))[1:] == ()
