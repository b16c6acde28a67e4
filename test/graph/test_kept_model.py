# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks fully described by files are exported once per machine, and give the same results from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from networks.yolo import exported
from torch import nn

from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import Model, kept_model, load_kept_model, load_model

SIZE = (32, 48)


@pytest.fixture
def exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of exported models, on a machine whose cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: list[str] = []

    def noted(reference: str, **options: Any) -> Model:
        names.append(Path(reference).name)
        return load_model(reference, **options)

    monkeypatch.setattr(kept_model, "load_model", noted)
    return names


def network(folder: Path, channels: int = 8) -> str:
    torch.manual_seed(channels)
    layers = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 4, 3, 2))
    return str(exported(layers, folder / "network.onnx", SIZE))


def outputs(model: Model) -> list[np.ndarray]:
    image = np.random.default_rng(0).integers(0, 256, (*model.input_size, 3), np.uint8)
    return list(Engine(model, EngineConfig(mode=Mode.DENSE)).run(image, None).outputs.values())


def test_an_onnx_file_is_exported_once(tmp_path: Path, exports: list[str]) -> None:
    reference = network(tmp_path)
    right = load_model(reference)
    for _ in range(3):
        model = load_kept_model(reference)
        assert (model.name, model.card, model.weights_origin) == (right.name, right.card, right.weights_origin)
        assert model.input_size == SIZE
        assert all(map(np.array_equal, outputs(model), outputs(right)))
    assert exports == ["network.onnx"]


def test_a_file_that_changes_is_exported_anew(tmp_path: Path, exports: list[str]) -> None:
    load_kept_model(network(tmp_path))
    model = load_kept_model(network(tmp_path, channels=16))
    assert len(exports) == 2
    assert all(map(np.array_equal, outputs(model), outputs(load_model(network(tmp_path, channels=16)))))


def test_weights_beside_the_file_may_change_so_nothing_is_kept(tmp_path: Path, exports: list[str]) -> None:
    whole = onnx.load(network(tmp_path))
    apart = tmp_path / "apart.onnx"
    onnx.save(whole, apart, save_as_external_data=True, location="weights.bin", size_threshold=0)
    for _ in range(2):
        load_kept_model(str(apart))
    assert exports == ["apart.onnx"] * 2


def test_code_may_do_something_else_the_next_time(tmp_path: Path, exports: list[str]) -> None:
    file = tmp_path / "network.py"
    file.write_text("import torch\ndef network():\n    return torch.nn.Conv2d(3, 4, 3)\n")
    for _ in range(2):
        load_kept_model(f"{file}:network", input_size=SIZE)
    assert len(exports) == 2


def test_what_does_not_exist_is_said_as_ever(tmp_path: Path, exports: list[str]) -> None:
    for reference in (str(tmp_path / "missing.onnx"), "no_such_model"):
        with pytest.raises(ModelError) as kept:
            load_kept_model(reference)
        with pytest.raises(ModelError) as plain:
            load_model(reference)
        assert str(kept.value) == str(plain.value)
