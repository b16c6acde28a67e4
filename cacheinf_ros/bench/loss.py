# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How often answers are right, measured by what dense answers to neighbouring frames agree on, and the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cacheinf_ros.engine.decisions import Loss, Score, Task, consensus_of_all, score_all

DENSE = "dense"
NOTHING_FOUND = (
    "Hardly anything is found in this recording, so losses say little: take one that shows what you look for."
)
"""What to say of a recording with fewer decisions than count."""
MOST_PIXELS = 131_072
"""The number of pixels above which class maps are made smaller before they are judged."""


class LossMeter:
    """Collects what every way decides on each frame, and judges all ways together.

    Attributes:
        task: the task that reads what outputs decide.
    """

    def __init__(self, task: Task[Any], max_loss: float) -> None:
        """Begin without frames; ``max_loss``: the promise, see :class:`cacheinf_ros.engine.EngineConfig`."""
        self.task = task
        self._max_loss = max_loss
        self._decisions: dict[str, list[Any]] = {DENSE: []}
        self._agreed: list[Any] = []  # for each frame, once asked for

    def add(self, dense: Any, others: Mapping[str, Any]) -> None:
        """Add the next frame: the decision by :data:`DENSE`, and those of the other ways, always the same ways."""
        self._agreed = []
        self._decisions[DENSE].append(dense)
        for name, decision in others.items():
            self._decisions.setdefault(name, []).append(decision)

    def add_decisions(self, name: str, decisions: Sequence[Any]) -> None:
        """Add another way by what it decides on each frame."""
        self._decisions[name] = list(decisions)

    def add_sequence(self, name: str, answers: Sequence[int]) -> None:
        """Add another way by the index, for each frame, of the frame whose dense answer it gives."""
        self._decisions[name] = [self._decisions[DENSE][index] for index in answers]

    def __len__(self) -> int:
        return len(self._decisions[DENSE])

    @property
    def decisions(self) -> Mapping[str, Sequence[Any]]:
        """What each way has decided, frame by frame."""
        return self._decisions

    @property
    def agreed(self) -> Sequence[Any]:
        """The consensus for each frame."""
        if len(self._agreed) != len(self):
            self._agreed = consensus_of_all(self.task, self._decisions[DENSE])
        return self._agreed

    def score(self, name: str, first: int = 0) -> Score:
        """Return how often one way was right, on the frames from ``first`` on."""
        return sum(score_all(self.task, self._decisions[name], self.agreed)[first:], Score())

    def scores(self) -> dict[str, Score]:
        """Return how often each way was right."""
        return {name: self.score(name) for name in self._decisions}

    def loss(self, name: str) -> dict[str, Any]:
        """Return the loss of one way, the promise and whether it is kept, and the number of decisions."""
        dense = self.score(DENSE)
        loss = Loss.of(self.score(name), dense)
        return {
            "asked": self._max_loss,
            "measured": round(loss.whole, 4),
            "where_it_moves": round(loss.moving, 4),
            "kept": loss.within(self._max_loss),
            "decisions": round(dense.total, 1),
        }

    def report(self, name: str) -> dict[str, Any]:
        """Return ``loss`` of one way, and ``consensus`` of all: shares of right decisions, whole and where it moves."""
        return {"loss": self.loss(name), "consensus": {each: shares(score) for each, score in self.scores().items()}}


def shares(score: Score) -> dict[str, float | None]:
    """Return the share of right decisions, whole and where the consensus moves, for JSON."""
    moving = None if score.moving is None else round(score.moving, 4)
    return {"whole": round(score.whole, 4), "where_it_moves": moving}
