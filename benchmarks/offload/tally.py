# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a policy's frames took over one link, added up over several times that the source was played."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from cacheinf_ros.bench.timing import summary
from cacheinf_ros.energy import EnergyKind, PowerModel
from cacheinf_ros.harness.playback import Played


class Tally:
    """Counts what one policy does over one link."""

    def __init__(self, warm: int) -> None:
        """``warm``: how many frames do not count whenever the source is played: caches are filled with them."""
        self._warm = warm
        self._plays: list[list[float]] = []  # milliseconds of all frames
        self._counts: Counter[str] = Counter()
        self._where: Counter[str] = Counter()
        self._latency: list[float] = []  # milliseconds, of those that count
        self._reuse: list[tuple[float, float]] = []  # the ratio of each frame that counts, and what it took
        self._errors = 0
        self._output_errors: list[dict[str, float] | None] = []
        self._joules: list[float | None] = []  # of a frame, each time that the source was played

    def add(
        self, played: Played, counts: Counter[str], output_error: dict[str, float] | None, joules: float | None = None
    ) -> None:
        """The source was played once.

        Args:
            counts: of the robot's node, for this time only.
            output_error: see :meth:`.run.Truth.error`.
            joules: of a frame by a meter; None: there is none.
        """
        counted = played.results[self._warm :] or played.results
        self._plays.append([result.compute_ms for result in played.results])
        self._latency += [result.compute_ms for result in counted]
        self._reuse += [(result.reuse_ratio, result.compute_ms) for result in counted]
        self._counts += counts
        self._where.update(result.where for result in counted)
        self._errors += sum(bool(result.error) for result in counted)
        self._output_errors.append(output_error)
        self._joules.append(joules)

    def figures(self, *, over_time: bool) -> dict[str, Any]:
        """Add up for the report; ``over_time``: with each frame of the first time.

        Among all frames, those that do not count included, ``transmit_share`` is the part of their time in which the
        robot sent.
        """
        transmit_ms, receive_ms = self._per_frame("transmit_us") / 1e3, self._per_frame("receive_us") / 1e3
        joules, kind = self._energy(transmit_ms, receive_ms)
        found = {
            "latency_ms": summary(self._latency) | {"std": round(float(np.std(self._latency)), 3)},
            "transmit_ms": transmit_ms,
            "transmit_share": transmit_ms / float(np.mean([ms for play in self._plays for ms in play])),
            "receive_ms": receive_ms,
            "mb_per_frame": self._per_frame("bytes_sent") / 1e6,
            "mb_received_per_frame": self._per_frame("bytes_received") / 1e6,
            "local_share": self._per_frame("local_permille") / 1e3,
            "where": dict(sorted(self._where.items())),
            "energy_j": joules,
            "energy_kind": kind.value,
            "reuse_ms": self._reuse,
            "errors": self._errors,
            "output_error": self._output_error(),
        }
        return found | ({"frames_ms": self._plays[0]} if over_time else {})

    def _energy(self, transmit_ms: float, receive_ms: float) -> tuple[float, EnergyKind]:
        """Joules of a frame by the meter; by the model, where that was not read each time."""
        measured = [joules for joules in self._joules if joules is not None]
        if measured and len(measured) == len(self._joules):
            return float(np.mean(measured)), EnergyKind.MEASURED
        frame_ms, compute_ms = float(np.mean(self._latency)), self._per_frame("robot_us") / 1e3
        return PowerModel().joules(frame_ms, compute_ms, transmit_ms, receive_ms), EnergyKind.MODELLED

    def _per_frame(self, name: str) -> float:
        return self._counts[name] / max(1, sum(map(len, self._plays)))

    def _output_error(self) -> dict[str, float] | None:
        errors = [error for error in self._output_errors if error is not None]
        if len(errors) < len(self._output_errors):
            return None
        mean, most = np.mean([error["mean"] for error in errors]), max(error["max"] for error in errors)
        return {"mean": float(mean), "max": most}
