# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A scheduler that cuts between layers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cacheinf_ros.offload.planning import Machines, Scheduler
from cacheinf_ros.offload.planning.workload import Integers, Numbers
from cacheinf_ros.offload_policy import OffloadPolicy


class LayerCuts(Scheduler):
    """Divides each frame by the best cut between layers (DADS) for as long as it is asked to, else as ours does."""

    def __init__(self, *arguments: Any, only_layers: Callable[[], bool], **keywords: Any) -> None:
        """As :class:`Scheduler`; ``only_layers``: whether there is nothing to choose but the cut."""
        super().__init__(*arguments, **keywords)
        self._only_layers = only_layers

    def candidates(
        self, policy: OffloadPolicy, around: Machines, mbit_s: float, changed: Numbers
    ) -> Sequence[Integers]:
        """As :meth:`Scheduler.candidates`."""
        if policy is OffloadPolicy.CACHEINF and self._only_layers():
            return [self.best_cut(around, mbit_s, changed)]
        return super().candidates(policy, around, mbit_s, changed)
