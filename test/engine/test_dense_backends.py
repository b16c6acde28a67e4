# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Dense backends of lower precision are near float32, are calibrated once, and leave other work alone."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from networks.shared_models import mixed_model

from cacheinf_ros.engine import DensePrecision, quantise_onnx
from cacheinf_ros.engine.dense_backends import (
    CLEARLY,
    FULL_PRECISION,
    Backend,
    DenseBackend,
    faster_backends,
    fastest_backends,
    prepare,
)
from cacheinf_ros.engine.int8_content import int8_content, kept_int8_content
from cacheinf_ros.engine.quantisation import quantise
from cacheinf_ros.engine.quantising_process import QuantisationError
from cacheinf_ros.graph import DenseGraph, Model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
LOWER = [backend for backend in Backend if backend not in FULL_PRECISION and not backend.on_gpu]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


@pytest.fixture(scope="module")
def model() -> Model:
    return mixed_model()


def test_order_of_precisions() -> None:
    order = [DensePrecision.FLOAT32, DensePrecision.FLOAT16, DensePrecision.BFLOAT16, DensePrecision.INT8]
    for index, least in enumerate(order):
        assert [least.allows(other) for other in order] == [other <= index for other in range(4)]


@pytest.mark.parametrize("threads", [1, 3])
def test_torch_takes_the_threads_that_it_is_given(model: Model, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself it takes one for each core, and so looks faster than backends that keep to ``threads``."""
    before, seen, compute = torch.get_num_threads(), [], DenseGraph.__call__

    def counted(graph: DenseGraph, image: torch.Tensor) -> Any:
        seen.append(torch.get_num_threads())
        return compute(graph, image)

    monkeypatch.setattr(DenseGraph, "__call__", counted)
    prepare(Backend.TORCH, model, threads).run(np.zeros((1, 3, *model.input_size), np.float32))
    assert seen == [threads]
    assert torch.get_num_threads() == before


def test_lower_precision_computes_nearly_the_same(model: Model, folder: Path) -> None:
    photographs = load_photographs(Gallery.TEST)
    assert kept_int8_content(model) is None
    content = int8_content(model, photographs)
    assert len(list(folder.rglob("*int8*.onnx"))) == 1
    assert bytes(kept_int8_content(model) or b"") == content == int8_content(model, photographs)
    scales = quantise(model, photographs, 1).scales
    full = prepare(Backend.OPENVINO, model, 1)
    expected = [[output.copy() for output in full.run(full.read(photograph))] for photograph in photographs]
    for backend in LOWER:
        try:
            lower = prepare(backend, model, 1, scales if backend is Backend.OWN_INT8 else content)
        except NotImplementedError:
            continue  # not on this processor
        for photograph, dense in zip(photographs, expected, strict=True):
            for ours, theirs in zip(lower.run(lower.read(photograph)), dense, strict=True):
                error = np.sqrt(np.mean(np.square(ours - theirs))) / theirs.std()
                assert error < (0.1 if backend.precision is DensePrecision.INT8 else 0.02), backend


def test_other_images_replace_what_was_kept(model: Model, folder: Path) -> None:
    content = int8_content(model, load_photographs(Gallery.TEST)[:1])
    assert len(list(folder.rglob("*int8*.onnx"))) == 1
    assert bytes(kept_int8_content(model) or b"") == content


def test_who_no_longer_waits_gets_no_model(model: Model) -> None:
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(QuantisationError, match="nobody waits"):
        int8_content(model, load_photographs(Gallery.TEST)[:2], stopping)


def test_quantising_ends_with_whom_it_is_for(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-P", quantise_onnx.__file__, str(folder)], stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.close()  # as when the parent dies
        assert process.wait(30.0) == 1
    assert not folder.exists()


@pytest.mark.parametrize("backend", FULL_PRECISION)
def test_arithmetic_stays_as_it_was(backend: Backend, model: Model) -> None:
    """A backend that flushes denormals to zero does so in its own threads, or restores the caller's setting."""
    prepared = prepare(backend, model, 2)
    prepared.run(prepared.read(np.zeros((*model.input_size, 3), np.uint8)))
    assert np.float32(1e-38) * np.float32(0.1) > 0


def test_own_kernels_compute_each_frame_anew(model: Model) -> None:
    ours, theirs = prepare(Backend.OWN, model, 2), prepare(Backend.TORCH, model, 2)
    for photograph in load_photographs(Gallery.TEST)[:3]:
        outputs = (each.run(each.read(photograph)) for each in (ours, theirs))
        for own, expected in zip(*outputs, strict=True):
            np.testing.assert_allclose(own, expected, atol=1e-4)


def test_what_is_not_clearly_faster_is_not_chosen(model: Model) -> None:
    (full, *_) = fastest_backends(model, 1, (Backend.OPENVINO,))
    assert (full.name, full.precision) == ("openvino", DensePrecision.FLOAT32)
    chosen = faster_backends(model, 1, full, LOWER[:2])
    for before, after in itertools.pairwise(chosen):
        assert after.milliseconds <= CLEARLY * before.milliseconds
        assert after.precision.allows(before.precision)


def test_a_backend_that_cannot_run_is_not_chosen(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    full = DenseBackend(
        name="torch", precision=DensePrecision.FLOAT32, read=np.copy, run=lambda image: [], milliseconds=1.0
    )
    assert faster_backends(model, 1, full, (Backend.ONNXRUNTIME_INT8,), b"no model") == ()
    assert "onnxruntime_int8 cannot run" in caplog.text
