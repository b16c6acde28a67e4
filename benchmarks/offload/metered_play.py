# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures the energy of playing a source by the machine's own meter, where there is one: the nodes' meters.

Robot and server are two processes of one machine, so that its meter counts both, and what the machine draws at rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from cacheinf_ros.energy import EnergyMeter, NoMeter, reading
from cacheinf_ros.nodes.recorder import Recorded


def described(meter: EnergyMeter | NoMeter) -> str:
    """Describe for a report how its joules were obtained."""
    if isinstance(meter, NoMeter):
        return f"modelled, no meter: {meter.reason}"
    return f"measured by {meter.name}: this whole machine, the server's part included"


class MeteredPlay:
    """A reader of the meter while a source is played once."""

    def __init__(self, meter: EnergyMeter | NoMeter, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Take the machine's meter, and the clock by which results arrive."""
        self._meter = None if isinstance(meter, NoMeter) else meter
        self._clock_ns = clock_ns
        self._readings: list[tuple[int, float | None]] = []

    def look(self, _: int = 0) -> None:
        """Read the meter; this must be called often, as a meter of watts is integrated over these readings."""
        if self._meter is not None:
            self._readings.append((self._clock_ns(), reading(self._meter)))

    def joules_per_frame(self, results: Sequence[Recorded], warm: int) -> float | None:
        """Return the joules per frame after the first ``warm`` ones; frames come one after the other without a pause.

        None where there is no meter, where a reading failed, or where nothing came before the frames that count.
        """
        joules = [each for _, each in self._readings if each is not None]
        if not joules or len(joules) < len(self._readings) or not 0 < warm < len(results):
            return None
        times = [results[warm - 1].arrived_ns, results[-1].arrived_ns]
        before, after = np.interp(times, [at_ns for at_ns, _ in self._readings], joules)
        return float(after - before) / (len(results) - warm)
