# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Quantisation scales are found from frames, stored, and used by engines that run int8."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from oracle import changed
from typer.testing import CliRunner

from cacheinf_ros.cli.quantise_command import quantise as command
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.quantisation import keep_scales, kept_scales, quantise
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.sources import open_source

SCENE = "scene:fixed?frames=8&size=96x128"
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
