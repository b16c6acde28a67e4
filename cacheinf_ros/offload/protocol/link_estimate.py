# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How fast the link is, judged by what crosses it anyway.

The time that a message takes beyond the smallest one is the time of its bytes. A collapse must be noticed at once, or
frames wait for data that does not come; a single fast message proves little, since it may have been in a buffer.
Therefore a worse observation counts for much at once, a better one for little.

But an observation that is worse by far may be a hiccup of one of the machines: only the second one in a row is
believed, if no small message has crossed as fast as ever in between. The time that small messages typically take beyond
the shortest of them is no evidence, because it comes from machines that wake up. All that small messages prove is that
the link is at least as fast as if all of their time had been spent on crossing it.

Until something large has crossed, the estimate is a guess and grows without a ceiling: a robot to which sharing does
not seem to pay sends nothing, and would otherwise never learn that the link is fast.
"""

from __future__ import annotations

import math

_WORSE, _BETTER = 0.8, 0.15  # weight of an observation that is worse, or better, than the estimate
_FAR_WORSE, _DOUBTED = 0.33, 0.35  # share of the estimate; weight of the first observation below it
LEAST_BYTES = 4000
"""The size below which a message gives only a lower bound of the bandwidth."""
_LEAST_MBIT_S, _MOST_MBIT_S = 0.01, 10_000.0
_HOPE = 1.2  # factor by which the estimate grows each second without observations
_TYPICAL = 0.1  # weight of a small message in the typical time of small messages
_PATIENCE, _MOST_TYPICAL_MS = 4.0, 10.0  # times the typical time that is excused; the most that it can be
_FORGOTTEN = 1.05  # per observation: the shortest delay may have been that of another route


class LinkEstimate:
    """Estimates one direction of a link.

    Attributes:
        mbit_s: 10**6 bits per second.
        delay_ms: the time that the smallest message takes from one end to the other.
        is_known: whether anything large has crossed the link, or not come; until then ``mbit_s`` is a guess.
    """

    def __init__(self, mbit_s: float = 10.0, delay_ms: float = 2.0) -> None:
        self.mbit_s = mbit_s
        self.delay_ms = delay_ms
        self.is_known = False
        self._best = mbit_s  # the highest estimate since the link is known, or the first guess
        self._is_warned = False
        self._typical_ms = 2.0  # the typical time of small messages beyond the shortest

    @property
    def bytes_per_ms(self) -> float:
        """The bandwidth, as in :attr:`mbit_s`, in bytes per millisecond."""
        return self.mbit_s * 125.0

    def __str__(self) -> str:
        """Describe the estimate, as in "48.0 Mbit/s, 1.2 ms"."""
        return f"{self.mbit_s:.1f} Mbit/s, {self.delay_ms:.1f} ms"

    def observe_delay(self, took_ms: float) -> None:
        """Take note of how long a message of hardly any bytes took."""
        beyond = min(max(0.0, took_ms - self.delay_ms), _MOST_TYPICAL_MS)
        self._typical_ms += _TYPICAL * (beyond - self._typical_ms)
        self.delay_ms = max(0.0, min(took_ms, self.delay_ms * _FORGOTTEN + 1e-3))

    def observe(self, size: int, took_ms: float) -> None:
        """Take note of how long ``size`` bytes took, the delay included."""
        crossing_ms = max(took_ms - self.delay_ms, 1e-3)
        excused_ms = _PATIENCE * self._typical_ms
        if size < LEAST_BYTES:
            self._is_warned &= crossing_ms > excused_ms  # the link works: what was worse by far was a hiccup
            at_least = size / 125.0 / max(took_ms, 1e-3)
            if at_least > self.mbit_s:
                self._move_to(at_least, _BETTER)
            return
        self.is_known = True
        expected_ms = size / self.bytes_per_ms
        if crossing_ms > expected_ms:
            crossing_ms = max(expected_ms, crossing_ms - excused_ms)
        seen = size / 125.0 / crossing_ms
        is_far_worse = seen < _FAR_WORSE * self.mbit_s
        worse = _WORSE if self._is_warned or not is_far_worse else _DOUBTED
        weight = worse if seen < self.mbit_s else _BETTER
        self._is_warned = is_far_worse
        self._move_to(seen, weight)

    def observe_round_trip(self, took_ms: float) -> None:
        """Take note of a round trip with bytes; where the delay alone would take longer, half of it is delay."""
        if took_ms / 2 < self.delay_ms:
            self.delay_ms = took_ms / 4

    def nothing_came(self, size: int, waited_ms: float) -> None:
        """Take note that bytes have not arrived in so long: the link is at most as fast as if they arrived now."""
        at_most = size / 125.0 / max(waited_ms - self.delay_ms, 1e-3)
        if size >= LEAST_BYTES and at_most < self.mbit_s:
            self.is_known = True
            self.mbit_s = _bounded(at_most)

    def forget(self) -> None:
        """Raise the estimate, towards the best so far if there is one: nothing has been observed for a while."""
        ceiling = max(self._best, self.mbit_s) if self.is_known else _MOST_MBIT_S
        self.mbit_s = min(ceiling, self.mbit_s * _HOPE)

    def _move_to(self, mbit_s: float, weight: float) -> None:
        seen = _bounded(mbit_s)
        self.mbit_s = _bounded(math.exp((1 - weight) * math.log(self.mbit_s) + weight * math.log(seen)))
        self._best = max(self._best, min(seen, self.mbit_s))  # not a guess that comes down


def _bounded(mbit_s: float) -> float:
    return min(max(mbit_s, _LEAST_MBIT_S), _MOST_MBIT_S)
