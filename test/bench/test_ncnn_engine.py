# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ncnn computes what torch does where it is installed, and is compared with only there unless it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import dense

from cacheinf_ros.bench import contenders
from cacheinf_ros.bench.contenders import Contender, contenders_on
from cacheinf_ros.bench.ncnn_engine import is_ncnn_installed, run_by_ncnn
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.graph import load_model

needs_ncnn = pytest.mark.skipif(not is_ncnn_installed(), reason="needs ncnn: `make test` has it in a folder of its own")


@needs_ncnn
def test_outputs_are_those_of_torch() -> None:
    model = load_model("scenenet")
    image = np.random.default_rng(0).integers(0, 256, (*model.input_size, 3), dtype=np.uint8)
    ours = run_by_ncnn(model, 1)(Preprocessor(model.card).input(image))
    for values, expected in zip(ours, dense(model, image), strict=True):
        assert values.shape == expected.shape
        assert np.abs(values - expected).max() < 1e-3 * max(1.0, np.abs(expected).max())


def test_it_is_compared_with_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (Contender.NCNN in contenders_on("cpu")) == is_ncnn_installed()
    monkeypatch.setattr(contenders, "is_ncnn_installed", lambda: False)
    assert Contender.NCNN not in contenders_on("cpu")
