# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two engines, one answer; and the caches of both never lag behind unnoticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import changed, dense

from cacheinf_ros.cache_map import CacheMap, Motion, compose, fold
from cacheinf_ros.catalog.features import pre_forward, trunk_model
from cacheinf_ros.catalog.labelled_pictures import Labelled
from cacheinf_ros.catalog.linear import Linear
from cacheinf_ros.catalog.specialists.chain import Chain
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.specialiser import Answered
from cacheinf_ros.catalog.specialists.specialist import Expectation, Specialist
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, load_model

NETWORKS = Path(__file__).parents[2] / "networks"
CONFIG = EngineConfig(mode=Mode.EXACT, dense_fallback=False)
Image = NDArray[np.uint8]


@pytest.fixture(scope="module")
def tiny() -> Model:
    return load_model(f"{NETWORKS / 'tiny.py'}:tiny")


@pytest.fixture
def chain(tiny: Model) -> Chain:
    return Chain(Engine(trunk_model(tiny), CONFIG), Engine(tiny, CONFIG))


def _specialist(bias: tuple[float, float, float], scale: float = 0.0) -> Specialist:
    """Knows classes 3 and 1; with scale 0 the bias decides."""
    expected = Expectation(
        accuracy=1, generic_accuracy=1, passed=0, disagreement=0, latency_ms=1, small_ms=1, generic_ms=4
    )
    weight = scale * np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    return Specialist(
        dominance=Dominance(pair=Pair(n=7, p=0.9), classes=(3, 1), shares=(0.6, 0.3)),
        layer=Linear(weight=weight.astype(np.float32), bias=np.array(bias, np.float32)),
        threshold=0.5,
        generic_classes=5,
        expected=expected,
    )


def _frames(count: int, share: float = 0.1) -> list[tuple[Image, CacheMap | None]]:
    rng = np.random.default_rng(0)
    frames: list[tuple[Image, CacheMap | None]] = [(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8), None)]
    for _ in range(count - 1):
        frames.append(changed(frames[-1][0], 8, share, rng))
    return frames


def test_without_a_specialist_the_model_answers(tiny: Model, chain: Chain) -> None:
    for image, cache_map in _frames(5):
        result = chain.run(image, cache_map)
        (exact,) = dense(tiny, image)
        assert result.answered is Answered.GENERIC and len(result.runs) == 1
        assert result.class_id == exact.argmax()
        assert result.outputs["output"] == pytest.approx(exact, abs=1e-5)


def test_a_sure_specialist_answers_alone(chain: Chain) -> None:
    image, _ = _frames(1)[0]
    result = chain.run(image, None, _specialist((5.0, 0.0, 0.0)))
    assert (result.answered, result.class_id, len(result.runs)) == (Answered.SPECIALIST, 3, 1)
    assert result.outputs["output"].shape == (1, 5) and result.outputs["output"].argmax() == 3


def test_other_and_unsure_frames_are_passed_on(tiny: Model, chain: Chain) -> None:
    for bias in ((0.0, 0.0, 5.0), (0.1, 0.0, 0.0)):
        image, _ = _frames(1)[0]
        result = chain.run(image, None, _specialist(bias))
        assert (result.answered, len(result.runs)) == (Answered.PASSED_ON, 2)
        assert result.class_id == dense(tiny, image)[0].argmax()


def test_an_audit_asks_both_and_the_model_is_right(tiny: Model, chain: Chain) -> None:
    image, _ = _frames(1)[0]
    truth = int(dense(tiny, image)[0].argmax())
    answers = {class_id: chain.run(image, None, _specialist(bias), audit=True) for class_id, bias in
               {3: (5.0, 0.0, 0.0), 1: (0.0, 5.0, 0.0)}.items()}  # fmt: skip
    for class_id, result in answers.items():
        assert result.answered is (Answered.CONFIRMED if class_id == truth else Answered.CONTRADICTED)
        assert result.class_id == truth and len(result.runs) == 2


@pytest.mark.parametrize("every", [2, 5, 30])
def test_what_an_engine_was_not_shown_is_made_up_for(tiny: Model, chain: Chain, every: int) -> None:
    """The model runs now and then only; its outputs are those of the frame all the same."""
    sure, unsure = _specialist((5.0, 0.0, 0.0), scale=0.1), _specialist((0.0, 0.0, 9.0))
    reused = []
    for number, (image, cache_map) in enumerate(_frames(70, share=0.02)):
        last = number % every == every - 1
        result = chain.run(image, cache_map, unsure if last else sure)
        (features,) = pre_forward([trunk_model(tiny)], [Labelled(image=image, classes={}, held_out=False)]).outputs
        assert next(iter(result.runs[0].outputs.values())).ravel() == pytest.approx(features[0], abs=1e-5)
        if last:
            assert result.outputs["output"] == pytest.approx(dense(tiny, image)[0], abs=1e-5)
            reused.append(result.runs[1].reuse_ratio)
    assert (max(reused) > 0) == (every <= 5)  # far behind, nothing is looked for


def test_frames_that_nothing_is_known_of_leave_nothing_to_reuse(tiny: Model, chain: Chain) -> None:
    sure, unsure = _specialist((5.0, 0.0, 0.0)), _specialist((0.0, 0.0, 9.0))
    frames = _frames(4)
    chain.run(*frames[0], unsure)
    chain.run(frames[1][0], None, sure)  # the camera lost track here
    result = chain.run(*frames[2], unsure)
    assert result.runs[1].reuse_ratio == 0.0
    assert result.outputs["output"] == pytest.approx(dense(tiny, frames[2][0])[0], abs=1e-5)
    chain.reset()
    assert chain.run(*frames[3], unsure).runs[1].reuse_ratio == 0.0


def test_a_model_without_classes_is_refused(tiny: Model) -> None:
    mixed = load_model(f"{NETWORKS / 'small.py'}:mixed", input_size=(61, 47))
    with pytest.raises(CatalogError, match="its output is no vector of classes"):
        Chain(Engine(trunk_model(tiny), CONFIG), Engine(mixed, CONFIG))


@pytest.mark.parametrize("moving", [False, True])
def test_maps_fold_as_if_composed_one_by_one(moving: bool) -> None:
    rng = np.random.default_rng(0)
    motions = [Motion.translation(8.0, 0.0) if moving and number == 1 else Motion.none() for number in range(4)]
    maps = [CacheMap.of_blocks(rng.random((6, 8)) < 0.8, (48, 64), 8, motion) for motion in motions]
    expected = compose(compose(compose(maps[0], maps[1]), maps[2]), maps[3])
    found = fold(maps)
    assert np.array_equal(found.reusable, expected.reusable) and found.reusable.any()
    assert np.array_equal(found.motion.matrix, expected.motion.matrix)
    assert np.array_equal(found.rectangles, expected.rectangles)
