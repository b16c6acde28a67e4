# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Each moment of a span of time counts once, however many absences cover it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.harness.absences import Absences

SPANS = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: (min(ends), max(ends)))


@given(spans=st.lists(SPANS, max_size=8), asked=SPANS)
def test_each_second_counts_once(spans: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    absences, covered = Absences(), np.zeros(40, bool)
    for begin, end in spans:
        absences.add(begin, end)
        covered[begin:end] = True
    assert absences.within(*asked) == covered[slice(*asked)].sum()


def test_by_hand() -> None:
    absences = Absences()
    absences.add(3.0, 5.0)
    absences.add(1.0, 2.0)
    absences.add(4.0, 4.5)
    assert absences.within(0.0, 10.0) == 3.0
    assert absences.within(1.5, 4.25) == 0.5 + 1.25
    more = Absences()
    more.add(1.5, 3.5)
    assert (absences | more).within(0.0, 10.0) == 4.0
