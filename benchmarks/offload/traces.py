# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Synthetic wireless links, with the properties that CacheInf's authors describe.

Indoors the bandwidth wavers around 93 Mbit/s; outdoors it wavers around 73 Mbit/s, and also drops to hardly anything
every few seconds, for there are no walls that would reflect the signal.

``config/traces/*.csv`` were written by :func:`write_traces`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cacheinf_ros.offload.protocol.limited_link import Trace

_STEP_S, _STEPS = 0.25, 240
_MEMORY = 0.9  # correlation of the logarithm of the bandwidth with one step before
_RANGE = (0.5, 250.0)  # Mbit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The properties of a wireless link.

    Attributes:
        mbit_s: mean bandwidth.
        wavering: standard deviation of the bandwidth's logarithm.
        breakdowns: number of breakdowns per second.
        lasting_s: mean duration of a breakdown.
    """

    mbit_s: float
    wavering: float
    breakdowns: float = 0.0
    lasting_s: float = 1.0


TRACES = {
    "indoor": Surroundings(mbit_s=93.0, wavering=0.25),
    "outdoor": Surroundings(mbit_s=73.0, wavering=0.45, breakdowns=0.15),
}


def synthetic(surroundings: Surroundings, seed: int = 0) -> Trace:
    """Generate a minute of a link."""
    rng, around = np.random.default_rng(seed), surroundings
    logarithm, down = 0.0, False
    values = []
    for _ in range(_STEPS):
        logarithm = _MEMORY * logarithm + (1 - _MEMORY**2) ** 0.5 * rng.normal()
        down = rng.random() > _STEP_S / around.lasting_s if down else rng.random() < around.breakdowns * _STEP_S
        values.append(rng.uniform(0.5, 4.0) / around.mbit_s if down else float(np.exp(around.wavering * logarithm)))
    scaled = np.array(values) * around.mbit_s / np.mean(values)
    return Trace(_STEP_S * np.arange(_STEPS, dtype=np.float64), np.round(np.clip(scaled, *_RANGE), 2))


def write_traces(folder: Path) -> None:
    """Write all of :data:`TRACES` to a folder, as CSV."""
    for name, surroundings in TRACES.items():
        trace = synthetic(surroundings)
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["seconds", "mbit_s"])
            writer.writerows(zip(trace.seconds.tolist(), trace.mbit_s.tolist(), strict=True))
