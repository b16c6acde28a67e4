# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Dense engines for a GPU compute what the network does; those parts that can run on the CPU are tested there."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from triton_devices import DEVICE, DEVICE_NAME, TRITON

from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, backends_for, faster_backends, fastest_backends, prepare
from cacheinf_ros.engine.dense_torch_on_gpu import TorchOnDevice
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.sources.scenes import Gallery, load_photographs

MIXED = mixed_model()
TORCH = (Backend.TORCH_CUDA, Backend.TORCH_CUDA_TF32, Backend.TORCH_CUDA_FLOAT16, Backend.TORCH_CUDA_BFLOAT16)


@settings(max_examples=10)
@given(seed=seeds)
def test_torch_on_the_device_computes_what_the_graph_does(seed: int) -> None:
    graph = random_model(seed).graph
    ours, dense = TorchOnDevice(graph, DEVICE), DenseGraph(graph)
    rng = np.random.default_rng(seed)
    for _ in range(2):  # the second must not return the first one's result
        image = rng.random((1, 3, *graph.tensors[graph.input].shape[2:]), np.float32)
        with torch.inference_mode():
            expected = dense(torch.from_numpy(image)).values()
        for output, reference in zip(ours(image), expected, strict=True):
            np.testing.assert_allclose(output, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", TORCH)
def test_precisions_of_torch(backend: Backend) -> None:
    image = load_photographs(Gallery.TEST)[0]
    ours, dense = prepare(backend, MIXED, 1, device=DEVICE_NAME), prepare(Backend.TORCH, MIXED, 1)
    for output, reference in zip(ours.run(ours.read(image)), dense.run(dense.read(image)), strict=True):
        assert output.dtype == np.float32
        error = np.sqrt(np.mean(np.square(output - reference))) / reference.std()
        assert error < (1e-4 if backend.precision is DensePrecision.FLOAT32 else 0.02)


def test_kernels_of_our_own_compute_each_frame_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    monkeypatch.setattr(chooses, "choose_backend", lambda *_: TRITON)
    ours, dense = prepare(Backend.OWN_CUDA, MIXED, 1, device=DEVICE_NAME), prepare(Backend.TORCH, MIXED, 1)
    for image in load_photographs(Gallery.TEST)[:2]:
        for output, reference in zip(ours.run(ours.read(image)), dense.run(dense.read(image)), strict=True):
            np.testing.assert_allclose(output, reference, atol=1e-3)


def test_a_device_is_offered_only_its_own_backends() -> None:
    for device in ("cpu", "cuda", "cuda:1"):
        offered = backends_for(device, *DensePrecision)
        assert offered and all(backend.on_gpu == (device != "cpu") for backend in offered)
    assert set(backends_for("cuda", DensePrecision.FLOAT32)) == {
        Backend.OWN_CUDA, Backend.TORCH_CUDA, Backend.ONNXRUNTIME_CUDA,
    }  # fmt: skip
    assert backends_for("cuda", DensePrecision.INT8) == ()


def test_they_are_chosen_by_measurement(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (full, *_) = fastest_backends(MIXED, 1, (Backend.TORCH_CUDA, Backend.ONNXRUNTIME_CUDA), DEVICE_NAME)
    assert full.name == "torch_cuda" or DEVICE_NAME != "cpu"
    assert "onnxruntime_cuda is not used" in caplog.text or DEVICE_NAME != "cpu"
    for faster in faster_backends(MIXED, 1, full, TORCH[2:], None, DEVICE_NAME):
        assert faster.milliseconds < full.milliseconds
