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
    """One kind of decisions, such as boxes or class maps.

    Attributes:
        least_right: the share of dense answers that must be right for losses to mean anything. Where scores cannot tell
            a wrong answer from a far worse one, held answers lose nothing once dense ones are wrong.
        tells_motion: whether scores say which decisions lie where things move; if not, nothing is promised there.
    """

    least_right: float
    tells_motion: bool

    def read(self, outputs: Outputs, image_size: tuple[int, int], motion: Motion | None = None) -> D:
        """Read what the outputs for a frame decide; the outputs are copied where they are kept.

        Args:
            image_size: (height, width) of the frame.
            motion: from the image that the outputs are for to the frame, in pixels of the model's input; None: none.
        """

    def presence(self, decision: D) -> float:
        """Return the weight of what counts most, 0 (nothing is seen) to 1 (also where something always is)."""

    def consensus(self, window: Sequence[D], index: int) -> D:
        """Return what the dense decisions of neighbouring frames agree on for one of them, ``window[index]``."""

    def score(self, answer: D, consensus: D, before: D | None) -> Score:
        """Judge a frame's answer by its consensus.

        Args:
            before: the consensus some frames earlier; where it differs, things move. None: nothing is known to move.
        """


def tells(task: Task[Any], dense: Score) -> bool:
    """Tell whether losses mean anything; ``dense``: how often dense answers were right (:attr:`Task.least_right`)."""
    return dense.whole >= task.least_right


RADIUS = 4
"""The frames on each side that make up a consensus; things move where it differs from that this many frames before."""


def consensus_of_all(task: Task[D], dense: Sequence[D]) -> list[D]:
    """Return the consensus for each frame of a sequence of decisions, of up to :data:`RADIUS` frames on each side."""
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
