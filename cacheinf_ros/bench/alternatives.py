# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The alternatives to computing every frame: skipping frames, or moving the last answer along with the picture.

All of them are computed from the dense answers to all frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.bench.flow import can_follow, follow_all
from cacheinf_ros.bench.policies import skipping
from cacheinf_ros.engine.decisions import Task

SKIPPED = "frame_skip"
"""The way that computes densely as often as bounded mode's time allows, and gives the last answer in between."""
SKIPS = (2, 3)
"""The regular skips that are tried: one of so many frames is computed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alternative:
    """A way to answer frames.

    Attributes:
        name: its name in the report.
        decisions: what it decides, for each frame.
        took_ms: the time of each frame; None where nothing is done for it, and the last answer stands.
        built_on: for each frame the one that its answer is derived from, itself where it is computed; None: each frame
            is computed, or nothing is done for it.
    """

    name: str
    decisions: Sequence[Any]
    took_ms: Sequence[float | None]
    built_on: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseRun:
    """The results of dense execution on the frames of a stream.

    Attributes:
        task: reads what answers decide.
        images: uint8 [height, width, 3] each.
        decisions: what dense execution decides, for each frame.
        took_ms: the time of each frame.
    """

    task: Task[Any]
    images: Sequence[NDArray[np.uint8]]
    decisions: Sequence[Any]
    took_ms: Sequence[float]

    @property
    def mean_ms(self) -> float:
        """The mean time of a frame, in milliseconds."""
        return float(np.mean(self.took_ms))

    def alternatives(self, given_ms: Sequence[float], skips: Sequence[int] = SKIPS) -> list[Alternative]:
        """Return the ways that skip frames regularly or as time allows, some also with optical flow in between.

        The last one, as time allows with optical flow, is left out where optical flow alone takes more than that time.

        Args:
            given_ms: the time of bounded mode for each frame, with the work that it does after its answer.
            skips: the regular skips, each a way: one of so many frames is computed.
        """
        found = self.every_few(skips)
        found.append(self._skipping(SKIPPED, skipping(given_ms, self.mean_ms)))
        if can_follow(self.task, self.decisions[0]):
            following = [self._following(name, plan) for name, plan in self._plans(SKIPS).items()]
            found += following
            flow_ms = _between(following[0])
            if flow_ms < np.mean(given_ms):
                found.append(self._following(SKIPPED, skipping(given_ms, self.mean_ms, flow_ms)))
        return found

    def every_few(self, skips: Sequence[int] = SKIPS) -> list[Alternative]:
        """Return the ways that compute one of so many frames, and repeat the last answer in between."""
        return [self._skipping(name, plan) for name, plan in self._plans(skips).items()]

    def _plans(self, skips: Sequence[int]) -> dict[str, list[int]]:
        return {f"every {every}": self._every(every) for every in skips}

    def _every(self, every: int) -> list[int]:
        return [index // every * every for index in range(len(self.decisions))]

    def _skipping(self, name: str, plan: Sequence[int]) -> Alternative:
        took = [took if plan[index] == index else None for index, took in enumerate(self.took_ms)]
        return Alternative(name=name, decisions=[self.decisions[index] for index in plan], took_ms=took)

    def _following(self, name: str, plan: Sequence[int]) -> Alternative:
        decisions, flow_ms = follow_all(self.task, self.images, self.decisions, plan)
        took = [
            moved + (dense if plan[index] == index else 0.0)
            for index, (moved, dense) in enumerate(zip(flow_ms, self.took_ms, strict=True))
        ]
        return Alternative(name=f"{name} + flow", decisions=decisions, took_ms=took, built_on=plan)


def _between(following: Alternative) -> float:
    """Return the median milliseconds of moving an answer along, when at least every other frame is not computed."""
    return float(np.percentile([took for took in following.took_ms if took is not None], 25))
