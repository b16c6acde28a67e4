# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Advice: targets as users write them, the choice between ways, and parameters that nodes take."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.bench.advice import Measured, Target, choices_for, own_settings, parameters_yaml
from cacheinf_ros.bench.advice.advice import CLEARLY, best_of
from cacheinf_ros.bench.advice.choices import Choice, Kind
from cacheinf_ros.bench.advice.target import Goal
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.decisions import Loss
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.pipeline.node_configs import ImageConfig, ModelConfig

CONFIGS = (EngineConfig, MatchingConfig, ModelConfig, ImageConfig)


@pytest.mark.parametrize(
    ("text", "goal", "limit"),
    [
        ("15fps", Goal.RATE, 15.0),
        ("12.5 Hz", Goal.RATE, 12.5),
        ("latency=50ms", Goal.LATENCY, 50.0),
        ("loss=0.05", Goal.LOSS, 0.05),
        ("", Goal.LOSS, 0.02),
    ],
)
def test_targets_are_read(text: str, goal: Goal, limit: float) -> None:
    assert Target.parse(text) == Target(goal=goal, limit=limit)


@pytest.mark.parametrize("text", ["fast", "fps", "0fps", "latency=50", "loss=2", "loss=1.2.3", "5W"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give frames per second"):
        Target.parse(text)


def way(mean_ms: float, whole: float, moving: float = 0.0) -> Measured:
    choice = Choice(name="any", title="any", kind=Kind.DENSE, parameters={})
    loss = Loss(whole=whole, moving=moving)
    return Measured(choice=choice, mean_ms=mean_ms, slowest_ms=2 * mean_ms, loss=loss, held=0.0)


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


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


@pytest.mark.parametrize("target", ["", "loss=0.1", "15fps"])
def test_nodes_take_the_parameters_of_every_way(target: str, tmp_path: Path) -> None:
    model = tmp_path / "my model.onnx"
    model.touch()
    own = own_settings(Target.parse(target), EngineConfig(threads=3))
    fields = {each.name: (config, each) for config in CONFIGS for each in config.declarations()}
    choices = choices_for("openvino", ["openvino_int8"], own)
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
        else:
            assert configs[EngineConfig] == own["bounded"].config.changed(max_loss=0.0)
        assert (choice.beside in text) and bool(choice.beside) == (choice.kind is Kind.SKIPPING)
