# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A program whose thresholds cannot be changed goes on as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from lowered import graph_of
from programs import change

from cacheinf_ros.engine.backends import ReferenceBackend
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.program import Program
from cacheinf_ros.errors import EngineError

SIZE = (12, 20)


def test_a_change_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames were marked in the new plan and computed by the old one, which saw no change: results were stale."""
    torch.manual_seed(0)
    backend = ReferenceBackend(torch.device("cpu"))
    network = torch.nn.Conv2d(3, 5, 3, 1, 1).eval()
    program, exact = (Program(graph_of(network, SIZE), backend) for _ in range(2))
    everything, image = np.ones(SIZE, np.uint8), torch.rand((*SIZE, 3))
    for each in (program, exact):
        change(each, image, everything)
        each.execute(refresh=True)

    def failing(*_: Any) -> Any:
        raise EngineError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(backend, "executor", failing)
        with pytest.raises(EngineError):
            program.set_thresholds({name: DeltaThreshold(threshold=0.5) for name in program.kept})
    outputs = []
    for each in (program, exact):
        change(each, image + 1, everything)
        outputs.append(next(iter(each.execute().values())).clone())
    assert torch.equal(*outputs)
