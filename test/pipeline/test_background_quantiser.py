# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Quantising in the background: on bursts that show something, and where no stored model is good enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from networks.shared_models import mixed_model
from numpy.typing import NDArray

from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, DenseBackend, fastest_backends
from cacheinf_ros.graph import Model
from cacheinf_ros.pipeline import int8_backends
from cacheinf_ros.pipeline.background_quantiser import BackgroundQuantiser

pytest.importorskip("onnxruntime")
BURST = 8
Image = NDArray[np.uint8]


@pytest.fixture(scope="module")
def model() -> Model:
    return mixed_model()


@pytest.fixture(scope="module")
def full(model: Model) -> DenseBackend:
    return fastest_backends(model, 1, (Backend.TORCH,))[0]


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect how many frames each new model would be calibrated on; none is made."""
    counts: list[int] = []

    def content(_model: Model, images: list[Image], _stopping: object) -> bytes:
        assert {image.shape for image in images} == {(61, 47, 3)}
        counts.append(len(images))
        return b"new"

    def offered(*arguments: object) -> tuple[DenseBackend, ...]:
        return (
            DenseBackend(
                name=str(arguments[-1]), precision=DensePrecision.INT8, read=np.copy, run=lambda _: [], milliseconds=1.0
            ),
        )

    monkeypatch.setattr(int8_backends, "kernel_library", lambda: None)
    monkeypatch.setattr(int8_backends, "kept_int8_content", lambda _: b"kept")
    monkeypatch.setattr(int8_backends, "int8_content", content)
    monkeypatch.setattr(int8_backends, "faster_backends", offered)
    return counts


def test_a_kept_model_is_offered_and_another_made_where_it_loses_too_much(
    model: Model, full: DenseBackend, calibrated: list[int]
) -> None:
    offered: list[str] = []
    quantiser = BackgroundQuantiser(model, 1, full, lambda backend: offered.append(backend.name))
    quantiser.wait()
    assert offered == ["b'kept'"]

    def burst(*, shows_something: bool = True, is_wanted: bool = True) -> None:
        for index in range(BURST):
            quantiser.see(np.full((90, 70, 3), index, np.uint8))
        quantiser.end_burst(shows_something=shows_something, is_wanted=is_wanted)
        quantiser.wait()

    burst(is_wanted=False)
    burst(shows_something=False)  # an empty room is nothing to calibrate on
    assert calibrated == []
    burst()
    assert calibrated == [BURST] and offered == ["b'kept'", "b'new'"]  # half of two bursts
    for _ in range(3):  # not again at once
        burst()
    assert len(calibrated) == 1
    burst()
    assert calibrated == [BURST, 3 * BURST]


def test_stop_ends_what_is_going_on(
    model: Model, full: DenseBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    quantiser = BackgroundQuantiser(model, 1, full, lambda backend: pytest.fail(f"{backend.name} is offered"))
    quantiser.wait()
    quantiser.see(np.zeros((90, 70, 3), np.uint8))
    quantiser.end_burst(shows_something=True, is_wanted=True)
    assert not quantiser.is_idle
    quantiser.stop(30.0)
    assert quantiser.is_idle and not list(tmp_path.rglob("*int8*"))
