# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Streams of one process prepare their dense backends one after the other."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import EngineError
from cacheinf_ros.pipeline import dense_stream
from cacheinf_ros.pipeline.dense_stream import DenseStream

DEADLINE_S = 20.0


class Preparing:
    """Prepares no backends, slowly, and knows which streams came and how many at a time."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.goes_on, self.begun = threading.Event(), threading.Semaphore(0)

    def __call__(self, model: Any, config: EngineConfig) -> Any:
        self.models.append(model)
        self.begun.release()
        assert self.goes_on.wait(DEADLINE_S)
        raise EngineError("none is installed")


@pytest.fixture
def preparing(monkeypatch: pytest.MonkeyPatch) -> Preparing:
    preparing = Preparing()
    monkeypatch.setattr(dense_stream, "full_precision_backends", preparing)
    return preparing


def stream_of(model: str, said: dict[str, str]) -> DenseStream:
    name: Any = model
    return DenseStream(name, EngineConfig(), said.__setitem__)


def test_one_stream_at_a_time_prepares_its_backends(preparing: Preparing) -> None:
    """Two that first used OpenVINO at the same time once stopped all threads of the process for good."""
    said: dict[str, dict[str, str]] = {"front": {}, "left": {}}
    front = stream_of("front", said["front"])
    assert preparing.begun.acquire(timeout=DEADLINE_S)
    left = stream_of("left", said["left"])
    assert not preparing.begun.acquire(timeout=0.3)
    assert preparing.models == ["front"]
    preparing.goes_on.set()
    for stream in (front, left):
        stream.wait()
    assert preparing.models == ["front", "left"]
    assert all("none is installed" in notes["dense_backend"] for notes in said.values())


def test_a_stream_that_was_closed_before_its_turn_prepares_nothing(preparing: Preparing) -> None:
    """A camera whose node is cleaned up and configured again and again would keep processors busy for minutes."""
    front = stream_of("front", {})
    assert preparing.begun.acquire(timeout=DEADLINE_S)
    left = stream_of("left", {})
    left.close()
    preparing.goes_on.set()
    for stream in (front, left):
        stream.wait()
    assert preparing.models == ["front"]
