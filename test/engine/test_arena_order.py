# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Another order of operators takes less memory, and gives the same outputs bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.arena_order import in_smallest_order, records_of
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.memory import least_for_offsets

_BRANCHES = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.wide = nn.ModuleList(nn.Conv2d(8, 64, 3, padding=1) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Conv2d(64, 4, 1) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        wide = [layer(x).relu() for layer in self.wide]  # all of them alive at once
        a, b, c = (layer(y) for layer, y in zip(self.narrow, wide))
        return a + b * c
"""


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("order") / "net.py"
    path.write_text(_BRANCHES)
    return load_model(f"{path}:Net", input_size=(32, 40))


def test_branches_run_one_after_the_other(branches: Model) -> None:
    layout = lay_out(branches.graph)
    caching = Caching.nothing(layout)
    graph = in_smallest_order(branches.graph, caching)
    own, other = (least_for_offsets(records_of(lay_out(g), caching)) for g in (branches.graph, graph))
    assert other < 0.6 * own
    done = {graph.input}
    for operator in graph.operators:
        assert done.issuperset(operator.inputs)
        done.add(operator.output)
    assert {o.output for o in graph.operators} == {o.output for o in branches.graph.operators}


def test_the_engine_computes_the_same_in_less_memory(branches: Model) -> None:
    image = np.random.default_rng(0).integers(0, 256, (32, 40, 3), dtype=np.uint8)
    ours, whole = (Engine(branches, EngineConfig(cache_budget_mb=budget, debug_memory=True)) for budget in (0.0, -1.0))
    for _ in range(2):
        assert np.array_equal(*(next(iter(e.run(image, None).outputs.values())) for e in (ours, whole)))
    layout = lay_out(branches.graph)
    assert ours.arena_bytes < 0.6 * least_for_offsets(records_of(layout, Caching.nothing(layout)))


def test_a_chain_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch.nn import Conv2d, ReLU, Sequential\n"
        "def net():\n"
        "    return Sequential(Conv2d(3, 4, 3), ReLU(), Conv2d(4, 4, 3))\n"
    )
    graph = load_model(f"{tmp_path / 'net.py'}:net", input_size=(20, 20)).graph
    assert in_smallest_order(graph, Caching.nothing(lay_out(graph))) is graph
