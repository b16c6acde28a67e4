# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The thread that makes a specialist reports its outcome, whatever happens there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cacheinf_ros.catalog.serving.making_specialists import SpecialistThread
from cacheinf_ros.catalog.specialists.dominance import Dominance, Pair
from cacheinf_ros.catalog.specialists.retarget import Made, Rejected
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.pipeline import wait_until

DEADLINE_S = 20.0


@pytest.mark.parametrize(
    "error", [CatalogError("it has changed"), KeyError("it has changed"), OSError("it has changed")]
)
def test_what_cannot_be_made_is_rejected_with_the_reason(error: Exception) -> None:
    """Without an outcome the node once waited, and began again for as long as the classes stayed the same."""

    def work(is_cancelled: Callable[[], bool]) -> Made | Rejected | None:
        raise error

    thread = SpecialistThread(Dominance(pair=Pair(n=2, p=0.9), classes=(1, 2), shares=(0.5, 0.4)), work)
    assert wait_until(lambda: thread.outcome is not None, DEADLINE_S)
    assert isinstance(thread.outcome, Rejected)
    assert "it has changed" in thread.outcome.why
