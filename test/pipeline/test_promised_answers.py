# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode: an answer is held while it stands, and frames are computed densely where the cache does not pay."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks.shared_models import mixed_model, small_scenenet
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import DensePrecision, EngineConfig, Mode, Preprocessor, Selection
from cacheinf_ros.engine.dense_backends import (
    FULL_PRECISION,
    Dense,
    DenseBackend,
    fastest_backends,
    run_by_torch,
)
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.pipeline import dense_execution, engine_trial
from cacheinf_ros.pipeline.cached_model import CachedModel
from cacheinf_ros.pipeline.engine_trial import Way
from cacheinf_ros.pipeline.frame_result import HELD
from cacheinf_ros.pipeline.pairing import Outcome
from cacheinf_ros.pipeline.runner import Runner
from cacheinf_ros.sources import open_source

BURST = 24
CONFIG = EngineConfig(mode=Mode.BOUNDED, threads=1, dense_precision=DensePrecision.FLOAT32)
Image = NDArray[np.uint8]


@pytest.fixture(scope="module")
def model() -> Model:
    return small_scenenet()


def picture(seed: int = 0, size: tuple[int, int] = (96, 128)) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def bounded(model: Model, **options: float) -> tuple[Runner, dict[str, str]]:
    """Make a runner whose dense backend is ready; return it and its notes for diagnostics."""
    notes: dict[str, str] = {}
    config = CONFIG.model_copy(update=options)
    runner = Runner(model, config, notes.__setitem__)
    runner.infer(picture(), None)
    assert runner.promised is not None
    runner.promised.wait()
    runner.reset()
    return runner, notes


def lower_backend(name: str, model: Model, run: Dense) -> DenseBackend:
    read = Preprocessor(model.card).input
    return DenseBackend(name=name, precision=DensePrecision.BFLOAT16, read=read, run=run, milliseconds=0.1)


def fast_backend(name: str, model: Model, factor: float = 1.0) -> tuple[DenseBackend, list[int]]:
    """Make a backend, and the list of its calls.

    Its outputs are the network's times ``factor``; it answers at once where it knows the frame.
    """
    exact = run_by_torch(model.module)
    known: dict[bytes, list[NDArray[np.float32]]] = {}
    calls: list[int] = []

    def run(prepared: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        calls.append(1)
        key = prepared.tobytes()
        if key not in known:
            known[key] = [value * np.float32(factor) for value in exact(prepared)]
        return known[key]

    return lower_backend(name, model, run), calls


def holding(model: Model) -> Runner:
    """Make a runner that holds its answer to ``picture()``."""
    runner, _ = bounded(model)
    for _ in range(BURST + 2):
        last = runner.infer(picture(), None)
    assert last.mode == HELD
    return runner


def test_a_still_picture_is_computed_in_a_burst_and_then_held(model: Model) -> None:
    runner, notes = bounded(model)
    still = picture()
    results = [runner.infer(still, None) for _ in range(60)]
    assert HELD not in [result.mode for result in results[:BURST]]
    held = [result for result in results[BURST:] if result.mode == HELD]
    assert len(held) > 25
    first = results[0]
    for result in held:
        assert (result.mode, result.outcome, result.engine.active_share) == ("held", Outcome.UNTOUCHED, 0.0)
        assert result.decoded == results[BURST - 1].decoded
        assert set(result.engine.stage_ms) == set(first.engine.stage_ms)
    assert notes["dense_backend"] and notes["loss"].startswith("0.000 +- 0.000 (0.000 +- 0.000 where things move)")
    assert notes["bursts"] == "1, promise broken in 0"
    runner.close()


def test_dense_answers_are_those_of_the_network(model: Model) -> None:
    runner, _ = bounded(model)
    exact = Runner(model, EngineConfig(mode=Mode.DENSE, threads=1), lambda name, text: None)
    for seed in range(3):
        ours, dense = runner.infer(picture(seed), None), exact.infer(picture(seed), None)
        for name, value in dense.engine.outputs.items():
            np.testing.assert_allclose(ours.engine.outputs[name], value, atol=1e-4)
    runner.close()


def test_whatever_differs_from_the_last_answer_s_frame_is_computed(model: Model) -> None:
    runner = holding(model)
    assert runner.infer(picture(1), None).mode != HELD
    assert runner.infer(picture(1), None).mode == HELD
    assert runner.infer(picture(1, (48, 64)), None).mode != HELD  # another frame size: boxes are in its pixels
    runner.reset()
    assert runner.infer(picture(1, (48, 64)), None).mode != HELD
    runner.close()


def test_answers_are_judged_by_what_the_user_gets_of_them(model: Model) -> None:
    runner = holding(model)
    runner.selection = Selection(score_threshold=0.9)
    results = [runner.infer(picture(), None) for _ in range(BURST + 2)]
    assert HELD not in [result.mode for result in results[:BURST]]  # a burst with other decisions
    assert results[-1].mode == HELD
    runner.close()


@pytest.mark.parametrize("stamps", [[9.0, 5.0], [9.0, 8.99]], ids=["a jump back", "a late frame"])
def test_no_answer_stands_for_a_model_of_a_catalog_after_a_jump_back(model: Model, stamps: list[float]) -> None:
    cached = CachedModel(holding(model))
    modes = [cached.run(picture(), int(stamp * 1e9), CONFIG).mode for stamp in stamps]
    assert modes == [HELD, HELD if stamps[1] > 8 else "dense"]
    cached.close()


def test_nothing_is_held_or_lost_where_no_loss_is_allowed(model: Model) -> None:
    runner, _ = bounded(model, max_loss=0.0)
    still = picture()
    results = [runner.infer(still, CacheMap.nothing((96, 128), 8)) for _ in range(BURST + 6)]
    assert HELD not in {result.mode for result in results}
    assert {result.engine.mode for result in results} == {Mode.DENSE}
    assert not runner.wants_maps
    runner.close()


def test_an_answer_given_without_a_promise_is_not_held_for_an_earlier_frame(model: Model) -> None:
    runner = holding(model)
    config = EngineConfig(mode=Mode.BOUNDED, threads=1)
    runner.configure(config.changed(max_loss=0.0))
    runner.infer(picture(1), None)
    runner.configure(config)
    assert runner.infer(picture(), None).mode != HELD  # the last answer is that of another picture
    runner.close()


def test_maps_are_wanted_only_while_the_cached_engine_is_on_trial_or_in_use(model: Model) -> None:
    runner, notes = bounded(model)
    assert runner.wants_maps
    rng = np.random.default_rng(5)
    for _ in range(BURST):  # matching is reported to have taken longer than anything else can
        image = rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)
        runner.infer(image, CacheMap.nothing((96, 128), 8), matching_ms=1e6)
    runner.audit_if_due(idle=True)
    assert "dense frames" in notes["cached_engine"]
    assert not runner.wants_maps
    runner.close()


def test_a_backend_that_was_clearly_slower_computes_one_frame_of_later_bursts(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, slow_at, frame = run_by_torch(model.module), [], 0

    def slow(image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        slow_at.append(frame)
        time.sleep(0.1)
        return run(image)

    backends = [("fast", run), ("slow", slow)]
    read = Preprocessor(model.card).input
    dense = [
        DenseBackend(name=name, precision=DensePrecision.FLOAT32, read=read, run=r, milliseconds=1.0)
        for name, r in backends
    ]
    monkeypatch.setattr(dense_execution, "fastest_backends", lambda *_: tuple(dense))
    runner, notes = bounded(model)
    slow_at.clear()  # calls while it was prepared
    while not notes.get("bursts", "").startswith("2"):
        runner.infer(picture(frame), None)
        frame += 1
        assert frame < 1000
    assert len([at for at in slow_at if at < BURST]) == BURST // 2
    assert len([at for at in slow_at if at >= BURST]) == 1
    runner.close()


@pytest.mark.parametrize(("factor", "is_used"), [(1.0, True), (1.3, False)])
def test_a_lower_precision_computes_frames_between_bursts_where_it_loses_little(
    model: Model, monkeypatch: pytest.MonkeyPatch, factor: float, is_used: bool
) -> None:
    (image, other, *_) = (frame.image for frame in open_source("scene:fixed?size=96x128&frames=2"))
    exact = run_by_torch(model.module)
    fake, calls = fast_backend("fake", model, factor)
    monkeypatch.setattr(dense_execution, "faster_backends", lambda *_: (fake,))
    runner, notes = bounded(model)
    fake.run(fake.read(image))
    calls.clear()
    for _ in range(BURST):
        last = runner.infer(image, None)
    runner.audit_if_due(idle=True)
    assert len(calls) == BURST // 2  # beside every other frame
    for name, value in zip(last.engine.outputs, exact(Preprocessor(model.card).input(image)), strict=True):
        np.testing.assert_allclose(last.engine.outputs[name], value, atol=1e-4)  # bursts are answered in float32
    assert notes["dense_backend"].startswith("fake") is is_used
    runner.infer(other, None)
    assert (len(calls) > BURST // 2) is is_used
    runner.close()


def test_what_has_nothing_to_do_with_the_network_s_outputs_is_no_lower_precision(
    model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exact = run_by_torch(model.module)
    wrong = {
        "zeros": lambda prepared: [np.zeros_like(value) for value in exact(prepared)],
        "no numbers": lambda prepared: [np.full_like(value, np.nan) for value in exact(prepared)],
    }
    backends = tuple(lower_backend(name, model, run) for name, run in wrong.items())
    monkeypatch.setattr(dense_execution, "faster_backends", lambda *_: backends)
    runner, notes = bounded(model)
    for index in range(BURST + 1):
        runner.infer(picture(index), None)
    assert not any(name in notes["dense_backend"] for name in wrong)
    assert all(f"{name} is not used" in caplog.text for name in wrong)
    runner.close()


def test_while_nothing_is_seen_a_lower_precision_looks_out(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, read = run_by_torch(model.module), Preprocessor(model.card).input
    lookout, calls = fast_backend("lookout", model, 1.01)
    monkeypatch.setattr(dense_execution, "faster_backends", lambda *_: (lookout,))
    runner, notes = bounded(model)
    runner.selection = Selection(score_threshold=0.9)
    shown = [frame.image for frame in open_source("scene:fixed?size=96x128&frames=60&enter=30&noise=1")]
    for image in shown:
        lookout.run(read(image))  # from now on it is fast
    looked, seen = 0, 0
    for image in shown:
        calls.clear()
        found = runner.infer(image, None)
        looked += len(calls)
        if found.decoded.boxes and found.mode != HELD:  # no answer with anything in it is that of a lower precision
            seen += 1
            for name, value in zip(found.engine.outputs, exact(read(image)), strict=True):
                np.testing.assert_allclose(found.engine.outputs[name], value, atol=1e-4)
        runner.audit_if_due(idle=True)
    assert looked > 5 and seen > 1
    assert notes["dense_backend"].endswith("while nothing is seen lookout")
    runner.close()


def test_no_answer_waits_for_what_is_tried_on_its_frame(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_trial, "_HOPELESS", math.inf)  # whatever else this machine does
    runner, _ = bounded(model)
    tried: list[int] = []
    run = runner.engine.run
    monkeypatch.setattr(
        runner.engine, "run", lambda image, *rest: (tried.append(int(image[0, 0, 0])), run(image, *rest))[1]
    )
    frames = [np.full((96, 128, 3), index, np.uint8) for index in range(BURST)]
    behind = []
    for index, frame in enumerate(frames):
        before = len(tried)
        runner.infer(frame, CacheMap.nothing((96, 128), 8))
        if index not in tried[before:]:
            behind.append(index)
            if index % 3:  # otherwise nothing rests, and the next frame has to finish the trial first
                runner.audit_if_due(idle=True)
                assert tried[-1] == index
    assert len(behind) >= 4
    assert tried == sorted(tried)
    assert tried[: behind[-1] + 1] == list(range(min(len(tried), behind[-1] + 1)))  # none is left out
    runner.close()


def test_what_fails_behind_an_answer_fails_no_frame(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, notes = bounded(model)
    run, calls = runner.engine.run, []

    def fail_once(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise EngineError("out of order")
        return run(*arguments)

    monkeypatch.setattr(runner.engine, "run", fail_once)
    results = [runner.infer(picture(), CacheMap.nothing((96, 128), 8)) for _ in range(BURST + 3)]
    assert not any(result.error for result in results)
    assert notes["cached_engine"].endswith("out of order")
    assert results[-1].mode == HELD
    runner.close()


def test_an_engine_that_always_fails_ends_no_burst_and_fails_no_frame(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, notes = bounded(model)

    def fail(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(runner.engine, "run", fail)
    results = [runner.infer(picture(), CacheMap.nothing((96, 128), 8)) for _ in range(BURST + 2)]
    assert not any(result.error for result in results)
    assert "out of memory" in notes["cached_engine"] and results[-1].mode == HELD
    runner.close()


def test_an_engine_that_fails_between_bursts_fails_no_frame(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, notes = bounded(model)
    for _ in range(BURST + 1):
        runner.infer(picture(), None)

    def fail(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(runner.engine, "run", fail)
    assert runner.promised is not None
    trial = runner.promised.trial
    trial.way, trial._known_change = Way.CACHED, 1.0
    results = [runner.infer(picture(seed), CacheMap.nothing((96, 128), 8)) for seed in range(1, 4)]
    assert not any(result.error for result in results) and HELD not in {result.mode for result in results}
    assert "out of memory" in notes["cached_engine"]
    assert runner.promised.trial.way is Way.DENSE and not runner.promised.trial.is_on
    runner.close()


@pytest.mark.parametrize(("way", "booked", "left"), [
    (Way.DENSE, 0.0, 0.02), (Way.DENSE, 0.85, 0.003), (Way.CACHED, 0.0, 0.01), (Way.CACHED, 0.85, 0.003),
])  # fmt: skip
def test_what_computed_answers_may_lose_is_not_given_to_held_ones(
    model: Model, monkeypatch: pytest.MonkeyPatch, way: Way, booked: float, left: float
) -> None:
    """The engine may lose half of the promise, a lower precision what it has booked, and a frame is computed by one."""
    runner, _ = bounded(model)
    promised = runner.promised
    assert promised is not None
    monkeypatch.setattr(type(promised._dense), "booked", booked)
    promised.trial.way = way
    assert promised._room == pytest.approx(left)
    runner.close()


def test_an_answer_from_before_others_answered_does_not_stand(model: Model) -> None:
    runner = holding(model)
    runner.reset(keeps_cache=True)
    assert runner.infer(picture(), None).mode != HELD
    assert runner.infer(picture(), None).mode == HELD
    runner.close()


def test_a_model_of_a_catalog_forgets_its_answer(model: Model) -> None:
    cached = CachedModel(holding(model))
    assert cached.run(picture(), 10**9, CONFIG).mode == HELD
    cached.forget()
    assert cached.run(picture(), 2 * 10**9, CONFIG).mode != HELD
    cached.close()


def test_a_dense_backend_that_fails_is_given_up_as_long_as_there_is_another(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, is_broken = run_by_torch(model.module), False

    def fail(prepared: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        if is_broken:
            raise RuntimeError("out of order")
        return exact(prepared)

    broken = replace(lower_backend("broken", model, fail), precision=DensePrecision.FLOAT32)
    works = replace(lower_backend("works", model, exact), precision=DensePrecision.FLOAT32)
    monkeypatch.setattr(dense_execution, "fastest_backends", lambda *_: (broken, works))
    runner, notes = bounded(model)
    is_broken = True
    results = [runner.infer(picture(), None) for _ in range(BURST + 2)]
    assert not any(result.error for result in results) and results[-1].mode == HELD
    assert notes["dense_backend"].startswith("works")
    runner.close()


def test_what_was_found_out_alone_stays_when_a_server_comes_and_goes(model: Model) -> None:
    """A session that was lost every few seconds once made frames be computed densely for most of the time."""
    runner, _ = bounded(model)
    promised = runner.promised
    assert promised is not None
    for seed in range(50 * BURST):  # on a busy machine a trial is not complete in its first burst
        runner.infer(picture(seed // BURST), None)
        if seed > BURST and promised.trial.is_judged:
            break
    assert promised.trial.is_judged
    promised.trial.way = Way.CACHED
    promised.meet(has_server=True)
    assert promised.trial.way is Way.DENSE and promised.trial.is_on
    promised.meet(has_server=False)
    assert promised.trial.way is Way.CACHED
    promised.engine_changed()
    promised.meet(has_server=True)
    assert promised.trial.is_on and not promised.trial.is_judged
    runner.close()


def test_where_less_may_be_lost_the_engine_computes_nothing_until_it_was_tried_again(model: Model) -> None:
    runner, _ = bounded(model)
    for _ in range(BURST + 1):
        runner.infer(picture(), None)
    assert runner.promised is not None
    runner.promised.trial.way = Way.CACHED
    runner.configure(EngineConfig(mode=Mode.BOUNDED, threads=1, max_loss=0.1))
    assert runner.promised.trial.way is Way.CACHED
    runner.configure(EngineConfig(mode=Mode.BOUNDED, threads=1, max_loss=0.01))
    assert runner.promised.trial.way is Way.DENSE
    runner.close()


def test_where_the_engine_may_lose_another_amount_it_is_tried_again(model: Model) -> None:
    runner, _ = bounded(model)
    for _ in range(BURST + 1):
        runner.infer(picture(), None)
    assert runner.promised is not None
    for max_error in (0.1, 0.01):
        runner.promised.trial.way, runner.promised.trial.is_on = Way.CACHED, False
        runner.configure(EngineConfig(mode=Mode.BOUNDED, threads=1, max_error=max_error))
        assert runner.promised.trial.way is Way.DENSE and runner.promised.trial.is_on
    runner.close()


def test_all_that_an_answer_waits_for_is_in_its_stages(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking, decoding boxes for the judge, and judging the answer before were once left out of its time."""
    runner, _ = bounded(model)
    promised = runner.promised
    assert promised is not None
    clock = iter(range(10**6))  # each look at it is one second later
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    computed = runner.infer(picture(), None)
    assert computed.decoded.boxes is not None and computed.engine.stage_ms["decode"] == promised.decoding_ms == 1e3
    assert computed.engine.stage_ms["judge"] >= 1e3 and computed.engine.stage_ms["prepare"] >= 1e3
    monkeypatch.undo()
    runner.close()


def test_an_audit_leaves_the_answer_that_is_held(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are views of the engine's maps, into which an audit computes."""
    runner, _ = bounded(model)
    answer = runner._frame_result(runner.engine.run(picture(), None), (96, 128))
    runner._last = answer
    kept = {name: value.copy() for name, value in answer.engine.outputs.items()}
    mode = runner.engine.bounded

    def audit() -> None:
        for value in answer.engine.outputs.values():
            value.fill(-1)

    monkeypatch.setattr(type(mode), "audit_due", property(lambda _: True))
    monkeypatch.setattr(mode, "audit", audit)
    assert runner.promised is not None
    runner.promised.trial.way = Way.CACHED
    runner.audit_if_due(idle=True)
    for name, value in runner._last.engine.outputs.items():
        np.testing.assert_array_equal(value, kept[name])
    runner.close()


def test_a_lower_precision_that_fails_is_given_up(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    exact, is_broken = run_by_torch(model.module), False

    def fail(prepared: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        if not is_broken:
            return exact(prepared)
        calls.append(1)
        raise RuntimeError("out of order")

    monkeypatch.setattr(dense_execution, "faster_backends", lambda *_: (lower_backend("broken", model, fail),))
    runner, notes = bounded(model)
    is_broken = True
    results = [runner.infer(picture(), None) for _ in range(BURST + 2)]
    assert (len(calls), results[-1].mode, "judging" in notes) == (1, HELD, False)
    runner.close()


def test_a_guess_of_classes_is_said_once(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tiny = load_model(f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny")
    runner, notes = bounded(tiny)
    for threshold in (0.3, 0.4):  # another selection is judged anew
        runner.selection = Selection(score_threshold=threshold)
        runner.infer(picture(), None)
        assert notes["judged_as"].startswith("classes, a guess") and "{kind: raw}" in notes["judged_as"]
    assert caplog.text.count("are judged as classes, a guess by the shape of the output") == 1
    runner.close()
    card = tiny.card.changed(decoder={"kind": "raw"})
    runner, notes = bounded(replace(tiny, card=card))
    runner.infer(picture(), None)
    assert notes["judged_as"] == "values" and not runner.outputs_are_told  # no decoder reads them: results carry them
    runner.close()
    runner, notes = bounded(model)
    runner.infer(picture(), None)
    assert notes["judged_as"] == "boxes"
    runner.close()


def test_an_onnx_file_is_taken_as_it_is_and_an_export_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    exported = onnx_content(mixed_model())
    (kept,) = (tmp_path / "cache" / "cacheinf_ros" / "onnx").glob("*.onnx")
    assert exported in kept.read_bytes()
    path = tmp_path / "mixed.onnx"
    path.write_bytes(exported)
    loaded = load_model(str(path))
    assert onnx_content(loaded) == exported
    assert len(list(kept.parent.iterdir())) == 1


def test_the_fastest_backend_computes_what_the_network_does(model: Model) -> None:
    image = picture(1)
    backends = [fastest_backends(model, 1, (backend,))[0] for backend in FULL_PRECISION]
    outputs = [backend.run(backend.read(image)) for backend in backends]
    for others in outputs[1:]:
        for ours, theirs in zip(outputs[0], others, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
