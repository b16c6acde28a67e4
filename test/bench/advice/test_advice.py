# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Advice: targets as users write them, the choice between ways, and parameters that nodes accept."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.bench.advice import Measured, Target, choices_for, own_settings, parameters_yaml
from cacheinf_ros.bench.advice.advice import CLEARLY, advise, best_of, choose
from cacheinf_ros.bench.advice.choices import Choice, Kind
from cacheinf_ros.bench.advice.target import Goal
from cacheinf_ros.bench.loss import LossMeter
from cacheinf_ros.bench.server_way import ServerLink, send
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.trace import FrameTrace
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.decisions import Loss
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.pipeline.node_configs import ImageConfig, ModelConfig, UseServerConfig
from cacheinf_ros.sources import ValueRange, value_range_of, voxel_grid_of

CONFIGS = (EngineConfig, MatchingConfig, ModelConfig, ImageConfig, UseServerConfig)


@pytest.mark.parametrize(
    ("text", "goal", "limit"),
    [
        ("15fps", Goal.RATE, 15.0),
        ("12.5 Hz", Goal.RATE, 12.5),
        ("latency=50ms", Goal.LATENCY, 50.0),
        ("loss=0.05", Goal.LOSS, 0.05),
        ("8W", Goal.POWER, 8.0),
        ("", Goal.LOSS, 0.02),
    ],
)
def test_targets_are_read(text: str, goal: Goal, limit: float) -> None:
    assert Target.parse(text) == Target(goal=goal, limit=limit)


@pytest.mark.parametrize("text", ["fast", "fps", "0fps", "latency=50", "loss=2", "loss=1.2.3", "W"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give frames per second"):
        Target.parse(text)


@pytest.mark.parametrize(("text", "limit"), [("loss=1e-3", 0.001), ("loss=2E-02", 0.02), ("latency=5e+1ms", 50.0)])
def test_targets_may_have_exponents(text: str, limit: float) -> None:
    assert Target.parse(text).limit == limit


def way(mean_ms: float, whole: float, moving: float = 0.0) -> Measured:
    choice = Choice(name="any", title="any", kind=Kind.DENSE, parameters={})
    loss = Loss(whole=whole, moving=moving)
    return Measured(
        choice=choice,
        mean_ms=mean_ms,
        slowest_ms=2 * mean_ms,
        loss=loss,
        held=0.0,
        busy_ms=mean_ms,
        reused=0.0,
        watts=5.0,
    )


ways = st.lists(st.builds(way, st.floats(0.1, 1e3), st.floats(-0.1, 1.0), st.floats(-0.1, 1.0)), min_size=1, max_size=8)
targets = st.builds(lambda goal, limit: Target(goal=goal, limit=limit), st.sampled_from(Goal), st.floats(0.01, 1.0))


@given(ways, targets)
def test_no_way_is_clearly_better_than_the_chosen(found: list[Measured], target: Target) -> None:
    chosen = best_of(found, target)
    least = min(each.promise for each in found)
    if target.goal is Goal.LOSS:
        assert all(CLEARLY * chosen.mean_ms <= each.mean_ms for each in found)
    else:
        assert chosen.promise <= least + 0.002
    assert not any(each.mean_ms <= chosen.mean_ms and each.promise <= least for each in found[: found.index(chosen)]), (
        "an equal that is plainer"
    )


def test_the_plainest_of_equals_is_chosen() -> None:
    dense, cached, fast = way(10.0, 0.0), way(9.8, 0.01), way(5.0, 0.02, 0.01)
    assert best_of([dense, cached], Target()) is dense
    assert best_of([dense, cached, fast], Target()) is fast
    assert best_of([dense, cached, fast], Target.parse("5fps")) is dense, "within a time the least loss"


def caching(name: str, mean_ms: float, slowest_ms: float, whole: float) -> Measured:
    choice = Choice(name=name, title=f"mode {name}", kind=Kind.CACHING, parameters={})
    return Measured(
        choice=choice, mean_ms=mean_ms, slowest_ms=slowest_ms, loss=Loss(whole=whole, moving=whole), held=0.0,
        busy_ms=mean_ms, reused=0.5, watts=5.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "others", "reason"),
    [
        (
            "latency=50ms",
            [caching("bounded", 25.0, 70.0, 0.01), caching("exact", 55.0, 60.0, 0.0)],
            "no mode that caches is fast enough; the nearest, mode exact, takes 60.0 ms in slow frames.",
        ),
        (
            "20fps",
            [caching("bounded", 25.0, 70.0, 0.01), caching("exact", 55.0, 60.0, 0.0)],
            "dense is fast enough and loses less than the modes that cache; the fastest of these, mode bounded, takes "
            "25.0 ms per frame and loses 0.010.",
        ),
        (
            "loss=0.02",
            [caching("exact", 39.0, 41.0, 0.0)],
            "the fastest mode that caches and loses little enough, mode exact, is not clearly faster: it takes 39.0 ms "
            "per frame; dense takes 40.0.",
        ),
        (
            "loss=0.02",
            [caching("exact", 41.0, 43.0, 0.0)],
            "the fastest mode that caches and loses little enough, mode exact, takes 41.0 ms per frame; dense takes "
            "40.0.",
        ),
        ("loss=0.02", [caching("bounded", 25.0, 70.0, 0.1)], "no mode that caches loses little enough."),
        ("200fps", [caching("bounded", 25.0, 70.0, 0.1)], "no mode that caches loses little enough."),
    ],
)
def test_why_caching_is_not_worth_it_is_told(target: str, others: list[Measured], reason: str) -> None:
    choice = Choice(name="dense", title="dense", kind=Kind.DENSE, parameters={})
    dense = Measured(
        choice=choice, mean_ms=40.0, slowest_ms=42.0, loss=Loss(whole=0.0, moving=0.0), held=0.0, busy_ms=40.0,
        reused=0.0, watts=15.0,
    )  # fmt: skip
    advice = choose([dense, *others], Target.parse(target), decisions=100.0)
    assert advice.chosen is dense and not advice.caching_pays
    assert f"Caching is not worth it here: {reason}" in advice.verdict


def test_where_only_lower_precision_is_fast_enough_that_is_told() -> None:
    """It loses a little, which beside dense execution, which is too slow, counted against it."""
    plainly, fast = (
        Choice(name=n, title=n, kind=k, parameters=p)
        for n, k, p in (("dense", Kind.DENSE, {}), ("openvino_int8", Kind.PRECISION, None))
    )
    common = {"held": 0.0, "reused": 0.0, "watts": 15.0}
    dense = Measured(
        choice=plainly, mean_ms=90.0, slowest_ms=95.0, loss=Loss(whole=0.0, moving=0.0), busy_ms=90.0, **common
    )
    int8 = Measured(
        choice=fast, mean_ms=30.0, slowest_ms=33.0, loss=Loss(whole=0.01, moving=0.01), busy_ms=30.0, **common
    )
    verdict = " ".join(choose([dense, int8], Target.parse("15fps"), decisions=100.0).verdict)
    assert "No way that the nodes have reaches at least 15 frames per second" in verdict
    assert "openvino_int8, would take 30.0 ms and lose 0.010" in verdict


def test_of_skipping_is_told_what_drops_frames_and_what_turns_it_off() -> None:
    dense, skipping = (
        Measured(
            choice=Choice(name=kind.value, title="any", kind=kind, parameters={}),
            mean_ms=mean_ms,
            slowest_ms=40.0,
            loss=Loss(whole=0.0, moving=0.0),
            held=0.0,
            busy_ms=mean_ms,
            reused=0.0,
            watts=15.0,
        )
        for kind, mean_ms in ((Kind.DENSE, 40.0), (Kind.SKIPPING, 20.0))
    )
    advice = choose([dense, skipping], Target(), decisions=100.0)
    assert advice.chosen is skipping
    head = parameters_yaml(advice.chosen.choice, "scenenet", comments=advice.verdict).partition("/**")[0]
    assert "ros-DISTRO-topic-tools" in head and "image_topic:=" in head


def test_watts_count_what_is_done_behind_answers() -> None:
    meter = LossMeter(ClassMaps("scores", (1, 4)), 0.1)
    kinds = {"dense": Kind.DENSE, "hidden": Kind.CACHING}
    choices = [Choice(name=name, title=name, kind=kind, parameters={}) for name, kind in kinds.items()]
    for _ in range(2):
        meter.add(np.zeros((1, 4), np.uint8), {"hidden": np.zeros((1, 4), np.uint8)})
    run = StreamRun(
        report={"fps": 20.0}, labels=(), stills=(), losses=meter, held={},
        took_ms={each.name: [10.0, 10.0] for each in choices},
        traces={"hidden": [FrameTrace(mode="dense", busy_ms=30.0)] * 2},
    )  # fmt: skip
    dense, hidden = advise(run, choices, Target(), PowerModel()).ways
    assert hidden.meets(Target.parse("33fps")) and not hidden.meets(Target.parse("34fps")), "30 ms of work a frame"
    # joules of 50 ms with 30 and with 10 ms of work, over 50 ms
    assert hidden.watts == pytest.approx(20 * PowerModel().joules(50.0, 30.0, 0.0, 0.0))
    assert dense.watts == pytest.approx(20 * PowerModel().joules(50.0, 10.0, 0.0, 0.0))


def test_a_mode_that_reused_nothing_owes_its_speed_to_no_cache() -> None:
    dense = way(40.0, 0.0)
    bounded = replace(caching("bounded", 20.0, 25.0, 0.0), reused=0.001)
    advice = choose([replace(dense, choice=replace(dense.choice, name="dense")), bounded], Target(), decisions=100.0)
    assert advice.chosen is bounded and not advice.caching_pays
    assert "Caching saves nothing here" in advice.verdict[1] and "precision that it computes in" in advice.verdict[1]
    reusing = replace(bounded, reused=0.4)
    assert choose(
        [replace(dense, choice=replace(dense.choice, name="dense")), reusing], Target(), decisions=1.0
    ).caching_pays


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


@pytest.mark.parametrize("target", ["", "loss=0.1", "15fps"])
def test_nodes_take_the_parameters_of_every_way(target: str, tmp_path: Path) -> None:
    model = tmp_path / "my model.onnx"
    model.touch()
    own = own_settings(Target.parse(target), EngineConfig(threads=3))
    fields = {each.name: (config, each) for config in CONFIGS for each in config.declarations()}
    choices = choices_for("openvino", ["openvino_int8"], own, has_server=True)
    assert [choice.name for choice in choices if choice.parameters is None] == ["openvino_int8"]
    for choice in choices:
        if choice.parameters is None:
            continue
        text = parameters_yaml(choice, str(model), size="96x128", comments=["a: b" * 100])
        read = yaml.safe_load(text)["/**"]["ros__parameters"]
        values: dict[Any, dict[str, Any]] = {config: {} for config in CONFIGS}
        for name, value in read.items():
            config, declared = fields[name]
            assert type(value) is type(plain(declared.info.default)), name
            values[config][declared.field] = value
        configs = {config: config.checked(**given) for config, given in values.items()}
        assert configs[ModelConfig] == ModelConfig(model=str(model.resolve()), input_size="96x128")
        if choice.name in own:
            assert configs[EngineConfig] == own[choice.name].config
            assert configs[MatchingConfig] == own[choice.name].matching
        elif choice.kind is Kind.SERVER:
            assert configs[UseServerConfig].use_server
        else:
            assert configs[EngineConfig] == own["bounded"].config.changed(max_loss=0.0)
        assert (choice.beside in text) and bool(choice.beside) == (choice.kind is Kind.SKIPPING)


def test_nodes_take_the_values_of_the_recording() -> None:
    own = own_settings(Target.parse("15fps"), EngineConfig(threads=3))
    (choice, *_) = choices_for("openvino", [], own, has_server=False)
    text = parameters_yaml(
        choice, "scenenet", value_ranges=[value_range_of("recording.mcap:/thermal?values=7000..9000")]
    )
    read = yaml.safe_load(text)["/**"]["ros__parameters"]
    assert ImageConfig(image_values=read["image_values"]).value_range == ValueRange(7000, 9000)
    grid = voxel_grid_of("drive.mcap:/points?voxels=4x3x2,0..4,-1..2,0..2")
    read = yaml.safe_load(parameters_yaml(choice, "scenenet", voxels=grid))["/**"]["ros__parameters"]
    assert ImageConfig(voxels=read["voxels"]).voxel_grid == grid is not None
    assert "image_values" not in parameters_yaml(
        choice, "scenenet", value_ranges=[value_range_of("scene:fixed?seed=1")]
    )


@pytest.mark.parametrize("text", ["40", "0,1,1", "a,b,c", "40,-1,9", "40,nan,9"])
def test_what_is_no_server_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give Mbit/s"):
        ServerLink.parse(text)


def test_the_link_sets_what_a_frame_takes() -> None:
    link = ServerLink.parse("8,3,10")
    assert link is not None and ServerLink.parse("") is None
    sent = send(np.zeros((32, 48, 3), np.uint8), link)
    assert sent.image.shape == (32, 48, 3)
    assert sent.took_ms == pytest.approx(sent.encode_ms + sent.transfer_ms + 13.0)
    assert link.transfer_ms(1000) == pytest.approx(1.0)
