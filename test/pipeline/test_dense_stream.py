# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Streams of one process prepare their dense backends one after the other."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from networks.shared_models import small_scenenet

from cacheinf_ros.engine import DensePrecision, EngineConfig
from cacheinf_ros.errors import EngineError
from cacheinf_ros.pipeline import dense_execution, dense_stream
from cacheinf_ros.pipeline.dense_stream import DenseStream

DEADLINE_S = 20.0


class Preparing:
    """Prepares no backends, slowly, and knows which streams came and how many at a time."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.goes_on, self.begun = threading.Event(), threading.Semaphore(0)

    def __call__(self, model: Any, config: EngineConfig, is_wanted: Any) -> Any:
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


class Resting:
    """Rests after each piece of work until it is stopped."""

    def __init__(self, *_: Any) -> None:
        self.frames = 0

    def frame(self) -> None:
        self.frames += 1

    def begin(self) -> None:
        pass

    def must_rest(self) -> bool:
        return True

    def rest(self, stopping: threading.Event) -> None:
        assert stopping.wait(DEADLINE_S)


def test_while_a_stream_rests_others_prepare_and_it_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a container may use little processor time, what is prepared beside frames rests most of the time."""
    begun, wanted = threading.Semaphore(0), []

    def preparing(model: Any, config: EngineConfig, is_wanted: Any) -> Any:
        begun.release()
        wanted.append(is_wanted())
        raise EngineError("it was closed")

    monkeypatch.setattr(dense_stream, "full_precision_backends", preparing)
    monkeypatch.setattr(dense_stream, "BackgroundPace", Resting)
    front, left = stream_of("front", {}), stream_of("left", {})
    for _ in (front, left):
        assert begun.acquire(timeout=DEADLINE_S)
    assert not wanted
    for stream in (front, left):
        stream.close()
        stream.wait()
    assert wanted == [False, False]


def test_frames_are_told_to_the_pace(preparing: Preparing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_stream, "BackgroundPace", Resting)
    stream = stream_of("front", {})
    stream.frame()
    assert stream._pace.frames == 1  # type: ignore[attr-defined]
    preparing.goes_on.set()
    stream.wait()


class Backends:
    """Knows which backends were prepared; from the first ``at`` one on the stream is closed."""

    def __init__(self, at: int) -> None:
        self.prepared: list[str] = []
        self.stream: DenseStream | None = None
        self.is_known = threading.Event()
        self._at = at

    def fastest(self, model: Any, threads: int, backends: Any, *others: Any) -> Any:
        assert self.is_known.wait(DEADLINE_S)
        for backend in backends:
            self.prepared.append(backend.value)
            if len(self.prepared) == self._at:
                assert self.stream is not None
                self.stream.close()
        return (SimpleNamespace(name="torch", milliseconds=1.0),)

    def faster(self, model: Any, threads: int, full: Any, backends: Any, *others: Any) -> Any:
        self.fastest(model, threads, backends)
        return ()


class Quantiser:
    """Quantises nothing, but is closed with its stream while it is made."""

    made: list[Quantiser]
    closes: DenseStream | None

    def __init__(self, *_: Any) -> None:
        self.made.append(self)
        self.is_stopped = False
        if self.closes is not None:
            self.closes.close()

    def stop(self, patience_s: float) -> None:
        self.is_stopped = True

    def wait(self) -> None:
        pass


def prepared_until(at: int, monkeypatch: pytest.MonkeyPatch, *, closes: bool = False) -> tuple[Backends, list[Any]]:
    """Return the backends of a stream that is closed when the first ``at`` are prepared, and its quantisers."""
    backends = Backends(at)
    quantiser = type("Closing", (Quantiser,), {"made": [], "closes": None})
    monkeypatch.setattr(dense_execution, "fastest_backends", backends.fastest)
    monkeypatch.setattr(dense_execution, "faster_backends", backends.faster)
    monkeypatch.setattr(dense_stream, "answers_to_photographs", lambda *_: [])
    monkeypatch.setattr(dense_stream, "BackgroundQuantiser", quantiser)
    said: dict[str, str] = {}
    backends.stream = DenseStream(small_scenenet(), EngineConfig(dense_precision=DensePrecision.INT8), said.__setitem__)
    quantiser.closes = backends.stream if closes else None
    backends.is_known.set()
    backends.stream.wait()
    assert at or closes or "torch" in said["dense_backend"]
    return backends, quantiser.made


def test_a_stream_that_is_closed_prepares_no_further_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for their turn, and a process that quantises would be stopped by nobody."""
    backends, quantisers = prepared_until(0, monkeypatch)
    assert len(quantisers) == 1 and not quantisers[0].is_stopped
    full, all_of_them = len(dense_execution.backends_for("cpu", DensePrecision.FLOAT32)), len(backends.prepared)
    assert all_of_them > full > 1
    for at in (1, full):
        backends, quantisers = prepared_until(at, monkeypatch)
        assert (len(backends.prepared), quantisers) == (at, [])
    backends, quantisers = prepared_until(full + 1, monkeypatch)
    assert len(backends.prepared) == full + 1 and [each.is_stopped for each in quantisers] == [True]


def test_a_quantiser_that_is_made_while_the_stream_is_closed_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    backends, quantisers = prepared_until(0, monkeypatch, closes=True)
    assert [each.is_stopped for each in quantisers] == [True]
    assert len(backends.prepared) == len(dense_execution.backends_for("cpu", DensePrecision.FLOAT32))
