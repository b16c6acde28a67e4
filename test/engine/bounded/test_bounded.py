# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode keeps its promise, and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from networks.shared_models import small_scenenet
from numpy.typing import NDArray
from oracle import dense
from torch import nn

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, Mode, load_calibration, save_calibration
from cacheinf_ros.engine.bounded.candidates import propagation_points
from cacheinf_ros.engine.bounded.curve import CurvePoint, Promise, factor_for
from cacheinf_ros.engine.bounded.sensitivity import channel_weights
from cacheinf_ros.engine.quality import OutputScale
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model, ModelCard, model_of
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.graph.lower import lower
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.sources import open_source

CONFIG = EngineConfig(mode=Mode.BOUNDED, max_error=0.05, max_missed=0.4, audit_every=10, dense_fallback=False)
Image = NDArray[np.uint8]


@pytest.fixture(scope="module")
def scenenet() -> Model:
    return small_scenenet()


@pytest.fixture(scope="module")
def stream() -> list[tuple[Image, CacheMap]]:
    matching = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY, threshold=25.0, expiry=10_000))
    frames = [frame.image for _, frame in zip(range(40), open_source("scene:fixed?size=96x128&seed=3"), strict=False)]
    return [(frame, matching.match(frame)) for frame in frames]


@pytest.fixture(scope="module")
def engine(scenenet: Model, stream: list[tuple[Image, CacheMap]]) -> Engine:
    engine = Engine(scenenet, CONFIG)
    frames, maps = zip(*stream[:6], strict=True)
    engine.calibrate(frames, maps)
    return engine


class Classes(nn.Module):
    """A network that says only which class each pixel has."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(x).argmax(1, keepdim=True)


def test_a_network_that_says_no_scores_is_named() -> None:
    engine = Engine(model_of(Classes(), ModelCard(name="classes", input_size=(32, 48))), CONFIG)
    frames = list(np.random.default_rng(0).integers(0, 256, (3, 32, 48, 3), np.uint8))
    with pytest.raises(EngineError, match="outputs are whole numbers"):
        engine.calibrate(frames, [None] * 3)


def test_the_error_stays_below_the_promise(engine: Engine, stream: list[tuple[Image, CacheMap]]) -> None:
    assert engine.bounded.calibration is not None
    scale = engine.bounded.calibration.output_scale
    shares, errors, audits = [], [], []
    engine.run(stream[6][0], None)
    for image, cache_map in stream[7:]:
        result = engine.run(image, cache_map)
        exact = dense(engine.model, engine.composed)
        errors.append(scale.error(list(result.outputs.values()), exact))
        shares.append(result.active_share)
        if engine.bounded.audit_due:
            audits.append(engine.bounded.audit())
    assert np.sqrt(np.mean(np.square(errors))) <= CONFIG.max_error
    assert len(audits) == 3
    assert all(audit is not None and audit.engine_error <= 1.5 * CONFIG.max_error for audit in audits)
    exact_engine = Engine(engine.model, CONFIG.changed(mode=Mode.EXACT))
    exact_engine.run(stream[6][0], None)
    exact_shares = [exact_engine.run(image, cache_map).active_share for image, cache_map in stream[7:]]
    assert np.mean(shares) < np.mean(exact_shares)


def test_parameters_hold_from_the_next_frame_on(engine: Engine, stream: list[tuple[Image, CacheMap]]) -> None:
    """With no error allowed, bounded mode is exact."""
    engine.configure(CONFIG.changed(max_error=0.0))
    engine.run(stream[0][0], None)
    for image, cache_map in stream[1:4]:
        result = engine.run(image, cache_map)
        for ours, exact in zip(result.outputs.values(), dense(engine.model, engine.composed), strict=True):
            assert np.abs(ours - exact).max() <= 1e-5 * exact.std()
    engine.configure(CONFIG)


@pytest.mark.parametrize("stricter", [{"max_error": 0.0}, {"max_missed": 0.0}])
def test_what_was_held_back_does_not_outlive_its_promise(
    engine: Engine, stream: list[tuple[Image, CacheMap]], stricter: dict[str, float]
) -> None:
    engine.configure(CONFIG)
    engine.run(stream[0][0], None)
    for image, cache_map in stream[1:8]:
        engine.run(image, cache_map)
    assert _largest_error(engine) > 1e-4
    looser = CONFIG.changed(max_error=0.06, max_loss=0.3)
    engine.configure(looser)
    assert not engine.run(*stream[8]).refreshed  # no more was held back than may be
    engine.configure(looser.changed(**stricter))
    assert engine.run(*stream[9]).refreshed
    assert _largest_error(engine) <= 1e-5
    engine.configure(CONFIG)


def _largest_error(engine: Engine) -> float:
    """Return how far the outputs are from those for the image that the cache stands for, over their deviation."""
    pairs = zip(engine.program.outputs.values(), dense(engine.model, engine.composed), strict=True)
    return max(float(np.abs(value.numpy() - exact).max() / exact.std()) for value, exact in pairs)


def test_an_audit_refreshes_the_cache_and_tightens_what_broke_the_promise(
    engine: Engine, stream: list[tuple[Image, CacheMap]]
) -> None:
    found = engine.bounded.calibration
    assert found is not None
    curve = tuple(replace(point, engine_error=0.0, missed_change=0.0) for point in found.curve)
    engine.bounded.use(replace(found, curve=curve))  # its frames did not show what holding changes back costs
    engine.configure(CONFIG.changed(max_error=1e-9))
    engine.run(stream[0][0], None)
    for image, cache_map in stream[1:8]:
        engine.run(image, cache_map)
    audit = engine.bounded.audit()
    assert audit is not None
    assert not audit.kept
    assert audit.tightness < 1
    for value, exact in zip(engine.program.outputs.values(), dense(engine.model, engine.composed), strict=True):
        assert np.abs(value.numpy() - exact).max() <= 1e-5 * exact.std()
    again = engine.bounded.audit()
    assert again is not None
    assert again.engine_error < 1e-6
    engine.bounded.use(found)


def test_a_calibration_is_found_again(engine: Engine, tmp_path: Path) -> None:
    assert engine.bounded.calibration is not None
    path = tmp_path / "folder" / "c.npz"
    assert load_calibration(path, engine.model.graph) is None
    save_calibration(engine.bounded.calibration, path)
    again = load_calibration(path, engine.model.graph)
    assert again is not None
    assert again.curve == engine.bounded.calibration.curve
    assert again.output_scale == engine.bounded.calibration.output_scale
    for name, delta in engine.bounded.calibration.base.items():
        assert again.base[name].threshold == delta.threshold
        assert np.array_equal(again.base[name].weight, delta.weight)
    whole = path.read_bytes()
    for damaged in (b"nonsense", whole[:-100], b"PK" + whole[2:]):  # BadZipFile was none of the errors expected
        path.write_bytes(damaged)
        assert load_calibration(path, engine.model.graph) is None


def test_a_calibration_of_another_network_or_of_nonsense_is_not_used(engine: Engine, tmp_path: Path) -> None:
    """A valid hash proves nothing, as anyone who writes to the cache directory can compute it.

    Compiled code once read beyond the end of a weight from such a file.
    """
    found, path = engine.bounded.calibration, tmp_path / "c.npz"
    assert found is not None
    name, delta = next(iter(found.base.items()))
    weight = np.ones(engine.model.graph.tensors[name].channels, np.float32)
    delta = replace(delta, weight=weight)
    short = replace(delta, weight=weight[:1])
    wrong = replace(found.curve[-1], engine_error=float("nan"))
    for damaged in (
        replace(found, base={**found.base, name: short}),
        replace(found, base={**found.base, name: replace(delta, weight=weight.astype(np.float64))}),
        replace(found, base={**found.base, name: replace(delta, threshold=float("inf"))}),
        replace(found, base={**found.base, "nothing": replace(delta, weight=None)}),
        replace(found, curve=()),
        replace(found, curve=(*found.curve[:-1], wrong)),
        replace(found, curve=found.curve[::-1]),
    ):
        save_calibration(damaged, path)
        assert load_calibration(path, engine.model.graph) is None
    save_calibration(replace(found, base={**found.base, name: delta}), path)
    assert load_calibration(path, engine.model.graph) is not None


def test_too_few_frames_are_refused(scenenet: Model) -> None:
    with pytest.raises(EngineError, match="at least two frames"):
        Engine(scenenet, CONFIG).calibrate([np.zeros((96, 128, 3), np.uint8)])


def test_uncalibrated_it_is_exact(scenenet: Model, stream: list[tuple[Image, CacheMap]]) -> None:
    engine = Engine(scenenet, CONFIG)
    assert engine.bounded.calibration is None
    assert engine.bounded.audit() is None
    engine.run(stream[0][0], None)
    result = engine.run(*stream[1])
    for ours, exact in zip(result.outputs.values(), dense(scenenet, engine.composed), strict=True):
        assert np.abs(ours - exact).max() <= 1e-5 * exact.std()


def test_weights_are_the_rows_of_the_jacobian() -> None:
    """A unit change of channel c at one pixel moves a 1x1 convolution's outputs by column c of its weight."""
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(3, 5, 1)
    module = torch.nn.Sequential(conv)
    module.input_size = (4, 6)  # type: ignore[assignment]
    program = torch.export.export(module, (torch.zeros(1, 3, 4, 6),)).run_decompositions({})
    graph = lower(program)
    image = np.random.default_rng(0).random((1, 3, 4, 6), np.float32)
    weights = channel_weights(graph, [image], OutputScale(deviations=(2.0,)), draws=400)
    expected = conv.weight.detach()[:, :, 0, 0].norm(dim=0).numpy() / (2.0 * (5 * 4 * 6) ** 0.5)
    assert np.allclose(weights[graph.input], expected, rtol=0.05)


def test_candidates_are_what_windows_read(scenenet: Model) -> None:
    points = propagation_points(scenenet.graph)
    assert points[0] == scenenet.graph.input
    readers = [o for o in scenenet.graph.operators if isinstance(o, Conv) and o.window.kernel != (1, 1)]
    assert {o.inputs[0] for o in readers} <= set(points) | {
        o.output for o in scenenet.graph.operators if type(o).__name__ in ("Concat", "Select")
    }


def test_the_factor_is_interpolated_between_what_keeps_and_what_breaks_the_promise() -> None:
    """With errors 0.01 and 0.04 at factors 1 and 16, an error of 0.02 is in the logarithmic middle, at factor 4."""
    points = [(0.0, 0.0, 0.0), (1.0, 0.01, 0.0), (16.0, 0.04, 0.0)]
    curve = [
        CurvePoint(factor=f, engine_error=e, missed_change=m, milliseconds=1.0, active_share=1.0) for f, e, m in points
    ]
    assert factor_for(curve, Promise(max_error=0.02, max_missed=1.0)) == pytest.approx(4.0)
    assert factor_for(curve, Promise(max_error=0.05, max_missed=1.0)) == 16.0
    assert factor_for(curve, Promise(max_error=0.001, max_missed=1.0)) == 0.0
