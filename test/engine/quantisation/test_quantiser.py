# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Quantisation scales are found from frames, stored, and used by engines that run int8."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from numpy.typing import NDArray
from oracle import changed
from quantised import scales_of
from typer.testing import CliRunner

from cacheinf_ros.cli.quantise_command import quantise as command
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Precision, quantisation
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.quantisation import keep_scales, kept_scales, quantise, spread
from cacheinf_ros.errors import ConfigError, EngineError
from cacheinf_ros.graph import Model, ModelCard, load_model, model_of
from cacheinf_ros.sources import open_source

SCENE = "scene:fixed?frames=8&size=96x128"
TINY = f"{Path(__file__).parents[2] / 'networks' / 'tiny.py'}:tiny"
INT8 = EngineConfig(precision=Precision.INT8, threads=1, dense_fallback=False)
pytestmark = pytest.mark.skipif(
    not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="the compiled kernels are not built"
)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("scenenet", input_size=(96, 128))


@pytest.fixture(scope="module")
def images() -> list[NDArray[np.uint8]]:
    return [frame.image for frame in open_source(SCENE)]


def test_without_scales_the_remedy_is_named(model: Model) -> None:
    assert kept_scales(model) is None
    with pytest.raises(EngineError, match="cacheinf quantise"):
        Engine(model, INT8)


def test_the_command_makes_scales_that_engines_use(
    model: Model, images: list[NDArray[np.uint8]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    app = typer.Typer()
    app.command()(command)
    report = tmp_path / "report.json"
    words = ["scenenet", "--source", SCENE, "--size", "96x128", "--frames", "4", "--json", str(report)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    said = json.loads(report.read_text())
    assert said["error"] < 0.1 and said["tensors"] and "in int8" in result.output

    engines = [Engine(model, INT8.changed(mode=mode)) for mode in (Mode.EXACT, Mode.DENSE)]
    exact = Engine(model, EngineConfig(threads=1))
    assert "int8" in engines[0].kernel_name and engines[0].cache_bytes < 0.4 * exact.cache_bytes
    rng, cache_map = np.random.default_rng(0), None
    image = images[0]
    for share in (0.02, 0.2, 0.0):
        ours, dense = engines[0].run(image, cache_map).outputs, engines[1].run(image, None).outputs
        for name, value in exact.run(image, None).outputs.items():
            assert np.array_equal(ours[name], dense[name])
            assert np.sqrt(np.mean((ours[name] - value) ** 2)) < 0.2 * value.std()
        image, cache_map = changed(image, 10, share, rng, images[-1])


def test_without_frames_there_are_no_scales(model: Model) -> None:
    with pytest.raises(EngineError, match="there are none"):
        quantise(model, [], 1)


def test_bounded_mode_calibrates(
    model: Model, images: list[NDArray[np.uint8]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_scales(model, quantise(model, images[:1], 1).scales)
    engine = Engine(model, INT8.changed(mode=Mode.BOUNDED))
    engine.calibrate(images[:3])
    engine.run(images[3], None)
    assert engine.bounded.audit() is not None


def test_scales_are_not_used_for_a_card_with_other_values(model: Model, tmp_path: Path, monkeypatch: Any) -> None:
    """The image's levels span the values of the card that the scales were made with."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_scales(model, scales_of(model))
    assert kept_scales(model) is not None
    assert kept_scales(replace(model, card=model.card.changed(scale=1.0))) is None


class Decided(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 16, 3, 1, 1)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.layer(image)
        return {"seen": scores > 0.1, "classes": scores.argmax(1).to(torch.uint8)}


def test_outputs_that_are_no_floats_are_compared_as_numbers(images: list[NDArray[np.uint8]]) -> None:
    card = ModelCard(name="decided", input_size=(24, 32))
    found = quantise(model_of(Decided().eval(), card), images, 1)
    assert all(0 <= error < 2 for error in found.output_errors.values())


class Masked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 16, 3, 1, 1), torch.nn.Conv2d(16, 16, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.log(torch.relu(self.first(image)))  # minus infinity where nothing is left
        return self.second(torch.exp(x))


def test_maps_with_infinite_values_stay_floats(images: list[NDArray[np.uint8]]) -> None:
    loaded = model_of(Masked().eval(), ModelCard(name="masked", input_size=(24, 32)))
    found = quantise(loaded, images, 1)
    assert np.isfinite(found.error)


@pytest.mark.parametrize(("frames", "last"), [(3, 2), (8, 7), (9, 7), (15, 13), (100, 87)])
def test_frames_are_judged_all_over_the_recording(frames: int, last: int) -> None:
    chosen = spread(frames, 8)
    assert len(chosen) == min(8, frames) == len(set(chosen))
    assert (chosen[0], chosen[-1]) == (0, last)


def test_a_model_that_was_quantised_before_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantisation, "own_scales", lambda model: object())
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [TINY, "--source", "scene:fixed?frames=8&size=48x64"])
    assert isinstance(result.exception, ConfigError) and "quantised already" in str(result.exception)


def test_scales_that_could_not_be_kept_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantisation, "keep_scales", lambda model, scales: None)
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [TINY, "--source", "scene:fixed?frames=8&size=48x64", "--frames", "2"])
    assert isinstance(result.exception, ConfigError) and "could not be kept" in str(result.exception)
