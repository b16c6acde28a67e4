# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A link that is made slower than the real one, to try out at a desk, without root, what a robot meets outdoors."""

from __future__ import annotations

import csv
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.config import expanded
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.pipeline import guarded, owned

Numbers = NDArray[np.float64]
_LEAST_MBIT_S = 0.01
_MOST_WAITING = 2**26  # bytes in the queue: what exceeds it is lost


@dataclass(frozen=True, eq=False)
class Trace:
    """A link's bandwidth over time; after its end it starts again.

    Attributes:
        seconds: float64 [points], increasing from 0: when each bandwidth begins.
        mbit_s: float64 [points], 10**6 bits per second.
    """

    seconds: Numbers
    mbit_s: Numbers

    @classmethod
    def constant(cls, mbit_s: float) -> Trace:
        """Return a trace of constant bandwidth."""
        return cls(np.zeros(1), np.array([mbit_s]))

    @property
    def is_constant(self) -> bool:
        """Whether the bandwidth never changes."""
        return len(self.seconds) == 1

    @property
    def period(self) -> float:
        """The seconds until the trace starts again; the last bandwidth lasts as long as the previous one."""
        if self.is_constant:
            return 1.0
        return float(2 * self.seconds[-1] - self.seconds[-2])

    def at(self, second: float) -> float:
        """Return the bandwidth at a time, in Mbit/s."""
        return float(self.mbit_s[np.searchsorted(self.seconds, second % self.period, side="right") - 1])

    def sent_at(self, start: float, size: int) -> float:
        """Return when ``size`` bytes have been sent whose sending begins at ``start``, in seconds."""
        ends, sent = self._sent
        periods, rest = divmod(start, self.period)
        total = periods * sent[-1] + np.interp(rest, ends, sent) + size * 8e-6
        periods, rest = divmod(total, sent[-1])
        return float(periods * self.period + np.interp(rest, sent, ends))

    @cached_property
    def _sent(self) -> tuple[Numbers, Numbers]:
        """The times at which the bandwidth changes, seconds, and the megabits sent until then."""
        ends = np.append(self.seconds, self.period)
        return ends, np.concatenate([[0.0], np.cumsum(self.mbit_s * np.diff(ends))])


def read_trace(text: str) -> Trace:
    """Read a trace from a number (Mbit/s), or from a CSV file with the columns ``seconds`` and ``mbit_s``.

    Raises:
        ConfigError: the text is neither, or the file holds no trace.
    """
    with suppress(ValueError):  # no number: it names a file
        return _checked(Trace.constant(float(text)), text)
    try:
        with Path(expanded(text)).open(newline="", encoding="utf-8") as file:
            rows = [(float(row["seconds"]), float(row["mbit_s"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"link {text!r} is neither a number of Mbit/s nor a CSV file with the columns seconds and mbit_s: {error}"
        ) from None
    if not rows:
        raise ConfigError(f"link {text!r}: the file is empty")
    return _checked(Trace(*(np.array(column) for column in zip(*rows, strict=True))), text)


def _checked(trace: Trace, text: str) -> Trace:
    if trace.seconds[0] != 0 or not np.isfinite(trace.seconds).all() or (np.diff(trace.seconds) <= 0).any():
        raise ConfigError(f"link {text!r}: seconds begin at 0 and increase")
    if not (np.isfinite(trace.mbit_s).all() and (trace.mbit_s >= _LEAST_MBIT_S).all()):
        raise ConfigError(f"link {text!r}: at least {_LEAST_MBIT_S} Mbit/s")
    return trace


class LimitedLink:
    """Delivers messages in order, as late as a link of limited bandwidth would.

    The trace's time is ``time.monotonic()``, so that both ends on one machine agree on it.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._free = 0.0  # when all that waits will have been sent
        self._bytes = 0  # bytes in the queue
        self._waiting: queue.SimpleQueue[tuple[float, int, Callable[[], None]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=owned(self._deliver), name="limited link", daemon=True)
        self._thread.start()

    def send(self, size: int, deliver: Callable[[], None]) -> None:
        """Call ``deliver``, in another thread, when ``size`` bytes have crossed; drop it where too many bytes wait."""
        with self._lock:
            if self._bytes + size > _MOST_WAITING:
                return  # dropped, as by a router
            self._bytes += size
            self._free = self._trace.sent_at(max(time.monotonic(), self._free), size)
            self._waiting.put((self._free, size, deliver))

    def close(self) -> None:
        """End when everything that waits is delivered; returns at once."""
        self._waiting.put(None)

    def _deliver(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            due, size, deliver = waiting
            time.sleep(max(0.0, due - time.monotonic()))
            with guarded("a message on a limited link"):  # one must not end the link
                deliver()
            with self._lock:
                self._bytes -= size
