# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which backend computes in int8: the engine's kernels wherever they are faster than float32, else other engines."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from networks.shared_models import mixed_model
from quantised import scales_of

from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, DenseBackend
from cacheinf_ros.engine.quantisation import Maker, keep_scales
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.graph import Model, Scales
from cacheinf_ros.pipeline import int8_backends
from cacheinf_ros.pipeline.int8_backends import Int8Backends

FRAMES = [np.zeros((61, 47, 3), np.uint8)]


@pytest.fixture(scope="module")
def model() -> Model:
    return mixed_model()


def backend(name: str) -> DenseBackend:
    return DenseBackend(name=name, precision=DensePrecision.INT8, read=np.copy, run=lambda _: [], milliseconds=1.0)


class Machine:
    """A machine on which some backends are faster than float32.

    Attributes:
        used: the backends that were measured, and what they were given.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: object, *fast: Backend) -> None:
        self.used: list[tuple[Sequence[Backend], object]] = []
        self._fast = fast
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(int8_backends, "kernel_library", object)
        monkeypatch.setattr(int8_backends, "kept_int8_content", lambda _: None)
        monkeypatch.setattr(int8_backends, "int8_content", lambda *_: b"onnx")
        monkeypatch.setattr(int8_backends, "faster_backends", self._measure)

    def _measure(
        self, _model: Model, _threads: int, _full: DenseBackend, backends: Sequence[Backend], quantised: object
    ) -> tuple[DenseBackend, ...]:
        self.used.append((backends, quantised))
        return tuple(backend(each.value) for each in backends if each in self._fast)


def int8(model: Model) -> Int8Backends:
    return Int8Backends(model, 1, backend("full"), threading.Event())


def test_scales_of_the_node_go_before_the_users(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    machine = Machine(monkeypatch, tmp_path, Backend.OWN_INT8)
    assert int8(model).kept() is None and not machine.used
    for maker, seed in ((Maker.USER, 1), (Maker.NODE, 2)):
        keep_scales(model, scales_of(model, seed), maker)
        found = int8(model).kept()
        assert found is not None and found.name == "cacheinf_int8"
        (_, used) = machine.used[-1]
        assert isinstance(used, Scales) and dict(used.levels) == dict(scales_of(model, seed).levels)


def test_other_engines_where_our_kernels_are_not_faster(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    machine = Machine(monkeypatch, tmp_path, Backend.OPENVINO_INT8)
    monkeypatch.setattr(int8_backends, "scales_of_frames", lambda *_: scales_of(model))
    backends = int8(model)
    for _ in range(2):
        found = backends.made(FRAMES)
        assert found is not None and found.name == "openvino_int8"
    assert [used[0] for used, _ in machine.used] == [Backend.OWN_INT8, Backend.OPENVINO_INT8, Backend.OPENVINO_INT8]


def test_where_none_is_faster_nothing_is_tried_again(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: object, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch, tmp_path)

    def fail(*_: object) -> Scales:
        raise CacheinfError("the graph cannot be written")

    monkeypatch.setattr(int8_backends, "scales_of_frames", fail)
    backends = int8(model)
    assert backends.made(FRAMES) is None and not backends.are_worth_it
    assert "the graph cannot be written" in caplog.text
    assert [used[0] for used, _ in machine.used] == [Backend.OPENVINO_INT8]
    assert backends.made(FRAMES) is None and len(machine.used) == 1
