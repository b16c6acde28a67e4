# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The lines that operators read are those that their access patterns name."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from networks.random_models import random_model, seeds

from cacheinf_ros.engine.execution.access_pattern import access_patterns
from cacheinf_ros.engine.execution.lines import lines_read
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.graph.ir import Conv, Operator, PixelShuffle, Pool


@settings(max_examples=24)
@given(seed=seeds)
def test_random_networks(seed: int) -> None:
    layout, rng = lay_out(random_model(seed).graph), np.random.default_rng(seed)
    patterns = access_patterns(layout)
    for operator in layout.operators:
        if operator.output not in patterns:
            continue
        rows = TapTable.of(patterns[operator.output].forward).rows
        first = int(rng.integers(len(rows)))
        lines = range(first, int(rng.integers(first, len(rows))) + 1)
        read = lines_read(layout, operator, 0, lines)
        named = rows[lines.start : lines.stop]
        named = named[named >= 0]
        assert all(line in read for line in named)
        if len(named) and _reads_all_between(operator):
            assert (read.start, read.stop) == (named.min(), named.max() + 1)
        assert 0 <= read.start <= read.stop <= layout.spec(operator.inputs[0]).size[0]


def _reads_all_between(operator: Operator) -> bool:
    """Tell whether an operator reads every line between its first and last one that has a tap.

    Only for these are the lines exact: elsewhere lines between taps, and taps without weight, count as read too.
    """
    if isinstance(operator, (Conv, Pool)):
        window = operator.window
        return window.dilation[0] == 1 and window.stride[0] <= window.kernel[0]
    return isinstance(operator, PixelShuffle)
