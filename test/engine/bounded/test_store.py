# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A calibration is kept for the engine that it was measured with."""

from __future__ import annotations

from pathlib import Path

from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.bounded.store import calibration_file
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.graph import load_model

TINY = Path(__file__).parents[2] / "networks" / "tiny.py"


def test_engines_that_keep_other_maps_have_calibrations_of_their_own() -> None:
    model = load_model(f"{TINY}:tiny")
    dropping = [EVERYTHING, *(Caching(dropped=frozenset(names)) for names in ({"a"}, {"b"}, {"a", "b"}))]
    assert len({calibration_file(model, EngineConfig(), caching) for caching in dropping}) == len(dropping)
    assert calibration_file(model, EngineConfig(), Caching(dropped=frozenset({"b", "a"}))) == calibration_file(
        model, EngineConfig(), dropping[-1]
    )
