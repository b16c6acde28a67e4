# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of models that share their common operators."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from oracle import assert_result_equals_dense, changed

from benchmarks.catalog.sharing import find_sharing, use_same_kernels
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.catalog.heads.attribute_heads import Head, head_model
from cacheinf_ros.catalog.heads.shared_models import merge_models, obstacle
from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

SIZE = (96, 128)


def _heads(trunk: Model, *names: str) -> list[Model]:
    channels = trunk.graph.tensors[trunk.graph.outputs[0][1]].channels
    models = []
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        weight = rng.normal(size=(number + 2, channels)).astype(np.float32)
        layer = Linear(weight=weight, bias=np.zeros(number + 2, np.float32))
        labels = tuple(map(str, range(number + 2)))
        models.append(head_model(trunk, Head(name=name, labels=labels, layer=layer, accuracy=0.5, samples=1)))
    return models


@pytest.fixture(scope="module")
def scenenet() -> Model:
    return load_model("scenenet", input_size=SIZE)


@pytest.fixture(scope="module")
def heads(scenenet: Model) -> list[Model]:
    return _heads(trunk_model(scenenet), "one", "two", "three")


@pytest.fixture(scope="module")
def photographs() -> list[np.ndarray]:
    return [np.asarray(cv2.resize(p, SIZE[::-1]), np.uint8) for p in load_photographs(Gallery.TEST)]


def test_what_is_shared_is_found(scenenet: Model, heads: list[Model]) -> None:
    """The models are heads on scenenet's trunk, scenenet itself, and an unrelated network."""
    other = load_model(f"{Path(__file__).parents[2] / 'networks' / 'small.py'}:mixed", input_size=SIZE)
    strange = Model(module=other.module, graph=other.graph, card=scenenet.card.model_copy(update={"name": "mixed"}))
    sharing = find_sharing([*heads, strange, scenenet])
    (group,) = sharing.groups
    assert [member.name for member in group.members] == ["one", "two", "three", "scenenet"]
    ((apart, why),) = sharing.apart
    assert apart.name == "mixed" and "it has no leading convolution in common with one" in why
    alone = sum(scenenet.graph.flops(o) for o in scenenet.graph.operators)
    assert alone < group.merged.flops < 1.01 * alone
    assert group.merged.flops_apart > 3.9 * alone


def test_images_must_be_prepared_alike(scenenet: Model, heads: list[Model]) -> None:
    larger = load_model("scenenet", input_size=(120, 160))
    assert obstacle(scenenet, larger) == "input_size is (120, 160), that of scenenet is (96, 128)"
    darker = Model(
        module=scenenet.module,
        graph=scenenet.graph,
        card=scenenet.card.model_copy(update={"name": "darker", "mean": (0.1, 0.1, 0.1)}),
    )
    assert obstacle(scenenet, darker).startswith("mean is (0.1, 0.1, 0.1), that of scenenet is")
    sharing = find_sharing([darker, *heads])
    assert [model.name for model, _ in sharing.apart] == ["darker"] and len(sharing.groups) == 1
    assert find_sharing([scenenet]).apart == ((scenenet, "there is no other model"),)


def test_names_must_differ(heads: list[Model]) -> None:
    with pytest.raises(CatalogError, match="'one' must be there once"):
        find_sharing([heads[0], heads[0]])


def test_dense_outputs_are_those_of_the_models_apart(heads: list[Model], photographs: list[np.ndarray]) -> None:
    """The outputs agree bit for bit."""
    shared = merge_models(heads)
    config = EngineConfig(mode=Mode.DENSE)
    together, apart = Engine(shared.model, config), [Engine(model, config) for model in heads]
    for engine in apart:
        use_same_kernels(shared, together, engine)
    for image in photographs:
        outputs = {name: value.copy() for name, value in together.run(image, None).outputs.items()}
        for model, engine in zip(heads, apart, strict=True):
            ours, theirs = shared.outputs_of(model.name, outputs), engine.run(image, None).outputs
            assert list(ours) == list(theirs)
            assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_one_cache_serves_all_heads(heads: list[Model], photographs: list[np.ndarray]) -> None:
    """Cached execution equals dense execution, and computes no more of the trunk than for one head."""
    rng = np.random.default_rng(0)
    config = EngineConfig(mode=Mode.EXACT, dense_fallback=False)
    together, alone = Engine(merge_models(heads).model, config), Engine(heads[0], config)
    image, cache_map = photographs[0], None
    for other, share in zip(photographs, (0.0, 0.02, 0.0, 0.1), strict=False):
        if share or cache_map is not None:
            image, cache_map = changed(image, 10, share, rng, other)
        result = together.run(image, cache_map)
        assert_result_equals_dense(together, result, image)
        # the heads' share of the operations is below a thousandth
        assert result.active_share == pytest.approx(alone.run(image, cache_map).active_share, abs=1e-3)
        cache_map = cache_map or CacheMap.nothing(SIZE, 10)


def test_shared_model_computes_what_the_network_does(scenenet: Model, heads: list[Model]) -> None:
    """The merged model's own module computes the same too, as users compare with it."""
    shared = merge_models([scenenet, *heads])
    image = torch.randn(1, 3, *SIZE)
    with torch.inference_mode():
        found, expected = shared.model.module(image), scenenet.module(image)
    assert found["scenenet/output"].numpy() == pytest.approx(expected.numpy(), abs=1e-4)
    assert set(found) == {"scenenet/output", "one/logits", "two/logits", "three/logits"}
