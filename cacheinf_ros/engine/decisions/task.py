# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What every kind of decision can do: be read from outputs, be agreed on by neighbouring frames, and be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decisions.score import Score

Outputs = Mapping[str, NDArray[Any]]
D = TypeVar("D")


class Task(Protocol[D]):
    """One kind of decisions, such as boxes or class maps."""

    def read(self, outputs: Outputs, image_size: tuple[int, int], motion: Motion | None = None) -> D:
        """Read what the outputs for a frame decide; the outputs are copied where they are kept.

        Args:
            image_size: (height, width) of the frame.
            motion: where the frame shows what the outputs are for, in pixels of the model's input; None: at its place.
        """

    def presence(self, decision: D) -> float:
        """How much the thing counts that counts most, 0 (nothing is seen) to 1 (also where something always is)."""

    def consensus(self, window: Sequence[D], index: int) -> D:
        """What the dense decisions of neighbouring frames agree on for one of them: ``window[index]``."""

    def score(self, answer: D, consensus: D, before: D | None) -> Score:
        """Judge a frame's answer by its consensus.

        Args:
            before: the consensus some frames earlier; where it differs, things move. None: nothing is known to move.
        """


RADIUS = 4
"""Frames on both sides that make up the consensus; things move where it differs from that of so many frames before."""


def consensus_of_all(task: Task[D], dense: Sequence[D]) -> list[D]:
    """The consensus for each frame of a sequence of dense decisions: of at most :data:`RADIUS` frames on both sides."""
    agreed = []
    for index in range(len(dense)):
        first = max(0, index - RADIUS)
        agreed.append(task.consensus(dense[first : index + RADIUS + 1], index - first))
    return agreed


def score_at(task: Task[D], answer: D, agreed: Sequence[D], index: int) -> Score:
    """Judge the answer to the frame with this index by the consensus for each frame."""
    return task.score(answer, agreed[index], agreed[index - RADIUS] if index >= RADIUS else None)


def score_all(task: Task[D], answers: Sequence[D], agreed: Sequence[D]) -> list[Score]:
    """Judge each frame's answer by its consensus."""
    return [score_at(task, answer, agreed, index) for index, answer in enumerate(answers)]
