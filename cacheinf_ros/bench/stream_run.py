# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Everything that was measured of a stream: the figures, and every way's answer to each frame for a closer look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cacheinf_ros.bench.loss import DENSE, LossMeter
from cacheinf_ros.bench.trace import FrameTrace, Still
from cacheinf_ros.engine.decisions import Loss, Score, score_all


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamRun:
    """The measurements of the frames.

    Attributes:
        report: the figures, for JSON.
        labels: names of the model's classes; empty: they have none.
        stills: the frames as small pictures.
        losses: judges what each way decided.
        took_ms: time of each way and frame; None where nothing is done for it, and the last answer stands.
        held: for each of this package's ways, whether a frame's answer is that to an earlier one.
        traces: for each of this package's ways, how each frame was answered.
        learning: how many frames at the start are here, but count in no mean, share or sum: bounded mode learnt from
            them.
    """

    report: Mapping[str, Any]
    labels: Sequence[str]
    stills: Sequence[Still]
    losses: LossMeter
    took_ms: Mapping[str, Sequence[float | None]]
    held: Mapping[str, Sequence[bool]]
    traces: Mapping[str, Sequence[FrameTrace]] = field(default_factory=dict)
    learning: int = 0

    def mean_ms(self, name: str) -> float:
        """Return the mean milliseconds per frame of the camera."""
        return float(np.mean([took or 0.0 for took in self.took_ms[name][self.learning :]]))

    def slowest_ms(self, name: str) -> float:
        """Return the 95th percentile of the milliseconds of frames that are computed; of all, where none is."""
        took_ms, is_held = self.took_ms[name][self.learning :], self.is_held(name)[self.learning :]
        computed = [took for took, held in zip(took_ms, is_held, strict=True) if took is not None and not held]
        return float(np.percentile(computed or [took or 0.0 for took in took_ms], 95))

    def is_held(self, name: str) -> Sequence[bool]:
        """Tell for each frame whether its answer is that to an earlier one."""
        return self.held[name] if name in self.held else [took is None for took in self.took_ms[name]]

    def held_share(self, name: str) -> float:
        """Return the share of the frames whose answer is that to an earlier one."""
        return float(np.mean(self.is_held(name)[self.learning :]))

    def loss(self, name: str) -> Loss:
        """Return how much less often a way is right than dense execution."""
        return Loss.of(*(self.losses.score(way, self.learning) for way in (name, DENSE)))

    def frame_losses(self, name: str) -> list[float]:
        """Return the loss on each frame alone, -1 to 1; negative where dense execution is right less often."""
        pairs = zip(self._scores(DENSE), self._scores(name), strict=True)
        return [dense.whole - ours.whole for dense, ours in pairs]

    def losses_so_far(self, name: str) -> list[float | None]:
        """Return the loss on all frames up to each one, the last that of :meth:`loss`; None for those to learn from."""
        found: list[float | None] = [None] * self.learning
        dense, ours = Score(), Score()
        for one_dense, one_ours in list(zip(self._scores(DENSE), self._scores(name), strict=True))[self.learning :]:
            dense, ours = dense + one_dense, ours + one_ours
            found.append(Loss.of(ours, dense).whole)
        return found

    def _scores(self, name: str) -> list[Score]:
        return score_all(self.losses.task, self.losses.decisions[name], self.losses.agreed)
