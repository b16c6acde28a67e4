# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""torch's own convolutions on a GPU are not rounded to TF32, of whole images and of listed pixels alike."""

from __future__ import annotations

import pytest
import torch

from cacheinf_ros.engine.execution.full_precision import in_full_precision


@pytest.mark.parametrize("rounds", [True, False])
def test_what_was_set_is_put_back(rounds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(cudnn, "allow_tf32", rounds)
    monkeypatch.setattr(cudnn, "benchmark", True)
    with in_full_precision(torch.device("cuda")):
        assert not cudnn.allow_tf32 and cudnn.benchmark
    assert cudnn.allow_tf32 is rounds and cudnn.benchmark
    with in_full_precision(torch.device("cpu")):
        assert cudnn.allow_tf32 is rounds
