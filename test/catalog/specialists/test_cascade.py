# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which model is asked, how often, and whose answer counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks.shared_models import mixed_model

from cacheinf_ros.catalog.linear import Floats, Linear
from cacheinf_ros.catalog.specialists.cascade import cascade, class_output
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.specialiser import Answered
from cacheinf_ros.catalog.specialists.specialist import Expectation, Specialist
from cacheinf_ros.errors import CatalogError

CLASSES = 5


def specialist(threshold: float) -> Specialist:
    """Return a specialist for classes 3 and 1, whose features are the logits of 3, 1 and other."""
    expected = Expectation(
        accuracy=1, generic_accuracy=1, passed=0, disagreement=0, latency_ms=1, small_ms=1, generic_ms=4
    )
    return Specialist(
        dominance=Dominance(pair=Pair(n=2, p=0.9), classes=(3, 1), shares=(0.6, 0.3)),
        layer=Linear(weight=np.eye(3, dtype=np.float32), bias=np.zeros(3, np.float32)),
        threshold=threshold,
        generic_classes=CLASSES,
        expected=expected,
    )


@given(
    features=st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3),
    threshold=st.floats(0, 1),
    right=st.integers(0, CLASSES - 1),
    audit=st.booleans(),
)
def test_each_is_asked_once_at_most_and_the_model_is_right(
    features: list[float], threshold: float, right: int, audit: bool
) -> None:
    asked: list[str] = []

    def small() -> Floats:
        asked.append("small")
        return np.array(features, np.float32)

    def generic() -> int:
        asked.append("generic")
        return right

    verdict = cascade(specialist(threshold), small, generic, audit=audit)
    sure = specialist(threshold).answer(np.array(features, np.float32)).class_id
    if sure is not None and not audit:
        assert (asked, verdict.answered, verdict.class_id) == (["small"], Answered.SPECIALIST, sure)
        assert verdict.logits is not None and verdict.logits.shape == (1, CLASSES)
        assert verdict.logits[0, sure] == verdict.logits.max()  # another class may be as likely
        assert np.exp(verdict.logits).sum() == pytest.approx(1.0, abs=1e-5)
        return
    assert asked == ["small", "generic"]
    assert verdict.class_id == right and verdict.logits is None
    said = {None: Answered.PASSED_ON, right: Answered.CONFIRMED}
    assert verdict.answered is said.get(sure, Answered.CONTRADICTED)


def test_without_a_specialist_the_small_one_is_not_asked() -> None:
    def unasked() -> Floats:
        raise AssertionError

    verdict = cascade(None, unasked, lambda: 4, audit=True)
    assert (verdict.class_id, verdict.answered, verdict.logits) == (4, Answered.GENERIC, None)


def test_a_model_without_classes_is_refused() -> None:
    mixed = mixed_model()
    with pytest.raises(CatalogError, match="its output is no vector of classes"):
        class_output(mixed)
