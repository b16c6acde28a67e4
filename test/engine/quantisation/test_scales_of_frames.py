# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node finds scales in another process, stores them in the user's cache, and stops when nobody waits for them."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from networks.shared_models import mixed_model
from quantised import scales_of

from cacheinf_ros.engine import Precision, kernel_library
from cacheinf_ros.engine.dense_program import DenseProgram
from cacheinf_ros.engine.quantisation import Maker, keep_scales, kept_scales, quantise, scales_of_frames
from cacheinf_ros.engine.quantising_process import QuantisationError
from cacheinf_ros.graph import Model, Scales
from cacheinf_ros.sources.scenes import Gallery, load_photographs

pytestmark = pytest.mark.skipif(kernel_library() is None, reason="the compiled kernels are not built")
PHOTOGRAPHS = load_photographs(Gallery.TEST)[:3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def model() -> Model:
    return mixed_model()


def levels(scales: Scales | None) -> dict[str, object] | None:
    return None if scales is None else dict(scales.levels)


def test_another_process_finds_the_same_scales_and_leaves_the_users(model: Model) -> None:
    users = scales_of(model, seed=1)
    keep_scales(model, users)
    found = scales_of_frames(model, PHOTOGRAPHS, threading.Event())
    assert levels(found) == levels(quantise(model, PHOTOGRAPHS, 1).scales)
    assert levels(kept_scales(model, Maker.NODE)) == levels(found)
    assert levels(kept_scales(model)) == levels(users) != levels(found)


def test_a_program_computes_with_the_scales_that_it_is_given(model: Model) -> None:
    keep_scales(model, scales_of(model, seed=1))
    given = DenseProgram(model, 1, Precision.INT8, scales=scales_of(model, seed=2))
    kept = DenseProgram(model, 1, Precision.INT8)
    outputs = [np.concatenate([o.ravel() for o in p.run(p.read(PHOTOGRAPHS[0]))]) for p in (given, kept)]
    assert not np.array_equal(*outputs)
    np.testing.assert_allclose(*outputs, atol=0.2 * float(np.ptp(outputs[1])))


def test_who_no_longer_waits_gets_none(model: Model) -> None:
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(QuantisationError, match="nobody waits"):
        scales_of_frames(model, PHOTOGRAPHS, stopping)
    assert kept_scales(model, Maker.NODE) is None
