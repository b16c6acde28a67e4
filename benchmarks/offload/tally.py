# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The figures of a policy's frames over one link, summed over several plays of the source."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from cacheinf_ros.bench.timing import summary
from cacheinf_ros.energy import EnergyKind, PowerModel
from cacheinf_ros.harness.playback import Played


class Tally:
    """A tally of what one policy does over one link."""

    def __init__(self, warm: int) -> None:
        """Begin empty; ``warm`` is the number of frames at the start of each play that fill caches and do not count."""
        self._warm = warm
        self._plays: list[list[float]] = []  # milliseconds of all frames, by play
        self._counts: Counter[str] = Counter()
        self._where: Counter[str] = Counter()
        self._latency: list[float] = []  # milliseconds of the frames that count
        self._reuse: list[tuple[float, float]] = []  # reuse ratio and milliseconds of each frame that counts
        self._errors = self._unanswered = 0
        self._first_error = ""
        self._output_errors: list[dict[str, float] | None] = []
        self._joules: list[float | None] = []  # joules per frame, by play

    def add(
        self, played: Played, counts: Counter[str], output_error: dict[str, float] | None, joules: float | None = None
    ) -> None:
        """Add one play of the source.

        Args:
            counts: counts of the robot's node, for this play only.
            output_error: see :meth:`.run.Truth.error`.
            joules: a frame's joules by a meter; None: there is no meter.
        """
        counted = played.results[self._warm :] or played.results
        answered = [result for result in counted if not result.error]
        self._plays.append([result.compute_ms for result in played.results])
        self._latency += [result.compute_ms for result in answered]
        self._reuse += [(result.reuse_ratio, result.compute_ms) for result in answered]
        self._counts += counts
        self._where.update(result.where for result in answered)
        self._errors += len(counted) - len(answered)
        self._unanswered += played.unanswered
        self._first_error = self._first_error or next((result.error for result in counted if result.error), "")
        self._output_errors.append(output_error)
        self._joules.append(joules)

    def figures(self, *, over_time: bool) -> dict[str, Any]:
        """Compute the figures for the report; with ``over_time``, also the times of each frame of the first play.

        ``transmit_share`` is the share of the time in which the robot sent. Like everything that the node counts, it is
        over all frames, including those that do not count. Joules by the model are of a frame of the mean latency, in
        which the robot computes, sends and receives for the same shares. Frames that failed have no latency; it is None
        where all did.
        """
        transmit_ms, receive_ms = self._per_frame("transmit_us") / 1e3, self._per_frame("receive_us") / 1e3
        joules, kind = self._energy(transmit_ms, receive_ms)
        latency = dict.fromkeys(("p50", "p95", "mean", "std"))
        if self._latency:
            latency = summary(self._latency) | {"std": round(float(np.std(self._latency)), 3)}
        found = {
            "latency_ms": latency,
            "transmit_ms": transmit_ms,
            "transmit_share": self._share(transmit_ms),
            "receive_ms": receive_ms,
            "mb_per_frame": self._per_frame("bytes_sent") / 1e6,
            "mb_received_per_frame": self._per_frame("bytes_received") / 1e6,
            "local_share": self._per_frame("local_permille") / 1e3,
            "where": dict(sorted(self._where.items())),
            "energy_j": joules,
            "energy_kind": kind.value,
            "reuse_ms": self._reuse,
            "errors": self._errors,
            "first_error": self._first_error,
            "unanswered": self._unanswered,
            "output_error": self._output_error(),
        }
        return found | ({"frames_ms": self._plays[0]} if over_time else {})

    def _energy(self, transmit_ms: float, receive_ms: float) -> tuple[float, EnergyKind]:
        """Return the joules per frame by the meter, or by the model where the meter was not read in every play."""
        measured = [joules for joules in self._joules if joules is not None]
        if measured and len(measured) == len(self._joules):
            return float(np.mean(measured)), EnergyKind.MEASURED
        frame_ms = float(np.mean(self._latency)) if self._latency else 0.0
        used_ms = (self._per_frame("robot_us") / 1e3, transmit_ms, receive_ms)
        return PowerModel().joules(frame_ms, *(self._share(each) * frame_ms for each in used_ms)), EnergyKind.MODELLED

    def _share(self, used_ms: float) -> float:
        """Return which share of the time of all frames something took; ``used_ms``: what it took per frame."""
        return used_ms / max(self._frame_ms, 1e-9)

    @property
    def _frame_ms(self) -> float:
        """The mean time of all frames, including those that do not count."""
        return float(np.mean([ms for play in self._plays for ms in play]))

    def _per_frame(self, name: str) -> float:
        return self._counts[name] / max(1, sum(map(len, self._plays)))

    def _output_error(self) -> dict[str, float] | None:
        errors = [error for error in self._output_errors if error is not None]
        if len(errors) < len(self._output_errors):
            return None
        mean, most = np.mean([error["mean"] for error in errors]), max(error["max"] for error in errors)
        return {"mean": float(mean), "max": most}
