# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a node reports about itself in /diagnostics, and how it notices frames that never arrived."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from statistics import fmean, median

from cacheinf_ros.pipeline.guard import THROTTLE

PREPARING = "being prepared"
"""What diagnostics say about the dense backends of bounded mode until these are ready."""
_WINDOW = 100
_SOURCES = 64  # whose last errors are kept; beyond that, the oldest errors are dropped
_LOSS_WINDOW = 1000  # frames over which the share of lost ones is told
_LOSS_JUDGED = 100  # frames; fewer say nothing
_LOSS_WARNED = 0.01
_KNOWN = 8  # intervals before a gap from which the camera's period is estimated
_CONFIRMED = 5  # intervals after the gap that must agree with that period
_TOLERANCE = 0.25  # of a period
_PAUSE = 10  # periods: a longer gap is a pause

_log = logging.getLogger(__name__)


class Level(IntEnum):
    """The levels of diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One diagnostics report.

    Attributes:
        level: the worst level that applies.
        message: the reason for the level.
        values: names and values, as texts.
    """

    level: Level
    message: str
    values: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkState:
    """The state of a node's threads that work on frames.

    Attributes:
        busy_s: for how long the frame at hand has been worked on, seconds.
        dropped: how many frames made room for newer ones.
        is_owed: whether a frame waits or is worked on, so that a result is due.
        has_died: whether a thread has ended without being asked to.
        at_rest: why no frames are taken at present; empty: frames are taken.
        failure: what went wrong when the node last stopped, or failed to start; empty: it rests by the user's wish.
    """

    busy_s: float = 0.0
    dropped: int = 0
    is_owed: bool = False
    has_died: bool = False
    at_rest: str = ""
    failure: str = ""


class Health:
    """Counts what happens to frames, and judges the node by the last hundred frames. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter(received=0, lost=0, missing=0, accepted=0, dropped=0, results=0, errors=0)
        self._arrived: deque[tuple[int, int]] = deque(maxlen=_LOSS_WINDOW)  # lost and missing before each frame
        self._lost_since = 0
        self._latency_ms: deque[float] = deque(maxlen=_WINDOW)
        self._reuse: deque[float] = deque(maxlen=_WINDOW)
        self._errors: dict[str, str] = {}  # by source, where its last frame failed; the latest last
        self._unreported = ""
        self._notes: dict[str, str] = {}
        self._counted: dict[str, Callable[[], int]] = {}
        self._uncountable: set[str] = set()
        self._silences: dict[str, str] = {}  # by topic
        self._answered = 0  # results at the last report
        self._owed_since_s: float | None = None  # time of the report since which a result is due and none has gone out

    def count(self, event: str, number: int = 1) -> None:
        """Count events of frames: received, accepted, or an event of the node's own."""
        with self._lock:
            self._counts[event] += number

    def lost(self, number: int) -> None:
        """Count camera frames that did not arrive, according to the middleware."""
        with self._lock:
            self._counts["lost"] += number
            self._lost_since += number

    def passed(self, missing: int) -> None:
        """Count a frame that arrived; ``missing``: how many before it are missing according to the stamps."""
        with self._lock:
            self._counts["missing"] += missing
            self._arrived.append((self._lost_since, missing))
            self._lost_since = 0

    def silent(self, reason: str, topic: str = "") -> None:
        """Note why no frames arrive on one of the node's topics; an empty ``reason`` says that they do."""
        with self._lock:
            self._silences[topic] = reason

    @property
    def loses_frames(self) -> bool:
        """Whether more than one in a hundred of the last thousand frames did not arrive."""
        with self._lock:
            return self._lost_share() > _LOSS_WARNED

    def _lost_share(self) -> float:
        """Return the larger of both shares: the middleware may not notice a loss, and stamps may be irregular."""
        lost = self._lost_since + sum(lost for lost, _ in self._arrived)
        missing = sum(missing for _, missing in self._arrived)
        worst = max(lost, missing)
        total = worst + len(self._arrived)
        return worst / total if total >= _LOSS_JUDGED else 0.0

    def result(self, latency_ms: float, reuse_ratio: float, error: str = "", source: str = "") -> None:
        """Count a result, and remember its latency and its error.

        Args:
            latency_ms: the time since the frame was received.
            reuse_ratio: the reuse ratio of the result.
            error: why the frame has no answer; stands until the same source succeeds.
            source: which of several models or sessions answered.
        """
        with self._lock:
            self._counts["results"] += 1
            self._counts["errors"] += bool(error)
            self._latency_ms.append(latency_ms)
            self._reuse.append(reuse_ratio)
            self._errors.pop(source, None)
            if error:
                self._errors[source] = error
            if len(self._errors) > _SOURCES:
                del self._errors[next(iter(self._errors))]

    def forget(self, source: str) -> None:
        """Forget the last error of a source from which no more results are to come."""
        with self._lock:
            self._errors.pop(source, None)

    def failed(self, reason: str) -> None:
        """Report, in the next status, a failure that has no result of its own."""
        with self._lock:
            self._counts["errors"] += 1
            self._unreported = reason

    def complained(self, complaint: str) -> None:
        """Count something that the operator should know, and log it as a warning at the caller's line."""
        self.count("complaints")
        _log.warning("%s", complaint, extra=THROTTLE, stacklevel=2)

    def restart(self) -> None:
        """Forget how the last frames went, because frames are taken again. The counts continue."""
        with self._lock:
            self._latency_ms.clear()
            self._reuse.clear()
            self._errors.clear()
            self._unreported = ""
            self._silences.clear()
            self._owed_since_s = None

    def note(self, name: str, text: str) -> None:
        """Report this text under this name from now on."""
        with self._lock:
            self._notes[name] = text

    def erase(self, prefix: str) -> None:
        """Stop reporting all texts whose names begin with ``prefix``."""
        with self._lock:
            for name in [name for name in self._notes if name.startswith(prefix)]:
                del self._notes[name]

    def counted(self, name: str, count: Callable[[], int]) -> None:
        """Report under this name what ``count`` returns when the status is asked for, in the thread that asks.

        Where it raises, "n/a" is reported.
        """
        self._counted[name] = count
        self._uncountable.discard(name)

    def status(self, work: WorkState, *, latency_budget_ms: float, stuck_after_s: float, now_s: float) -> Status:
        """Judge the node: ERROR when stuck or failing, WARN above the latency budget, "n/a" before the first frame.

        A node at rest is OK, and says that it is at rest, unless a failure stopped it.

        Args:
            work: the state of its threads now.
            stuck_after_s: how long a frame, or the next result, may take.
            now_s: the time by any one clock.
        """
        with self._lock:
            latency = sorted(self._latency_ms)
            self._counts["dropped"] = work.dropped
            values = {name: str(count) for name, count in self._counts.items()} | self._notes
            error, self._unreported = self._standing_error() or self._unreported, ""
            reuse, lost_share = list(self._reuse), self._lost_share()
            silence = next(filter(None, self._silences.values()), "")
            stalled_s = self._stalled_s(work, now_s)
        middle = latency[len(latency) // 2] if latency else None
        values |= {name: self._count_of(name) for name in self._counted}
        values["latency_ms"] = "n/a" if middle is None else f"{middle:.1f}"
        values["latency_max_ms"] = "n/a" if not latency else f"{latency[-1]:.1f}"
        values["lost_share"] = f"{lost_share:.3f}"
        values["reuse_ratio"] = "n/a" if not reuse else f"{sum(reuse) / len(reuse):.3f}"
        if work.at_rest:
            level = Level.ERROR if work.failure else Level.OK
            message = f"{work.failure} ({work.at_rest})" if work.failure else work.at_rest
            return Status(level=level, message=message, values=values)
        stuck = _stuck(work, stalled_s, stuck_after_s)
        if stuck:
            return Status(level=Level.ERROR, message=stuck, values=values)
        if error:
            return Status(level=Level.ERROR, message=error, values=values)
        if silence:
            return Status(level=Level.WARN, message=silence, values=values)
        if lost_share > _LOSS_WARNED:
            message = f"{lost_share:.0%} of the camera's frames are lost on their way: the log says what helps"
            return Status(level=Level.WARN, message=message, values=values)
        if middle is None:
            return Status(level=Level.OK, message="n/a: no frame yet", values=values)
        if middle > latency_budget_ms:
            message = f"latency {middle:.0f} ms is above the budget of {latency_budget_ms:g} ms"
            return Status(level=Level.WARN, message=message, values=values)
        return Status(level=Level.OK, message=f"latency {middle:.0f} ms", values=values)

    def _standing_error(self) -> str:
        """Return the latest error of a source that has not succeeded since, and how many others fail."""
        if not self._errors:
            return ""
        source, error = next(reversed(self._errors.items()))
        others = len(self._errors) - 1
        return (f"{source}: " if source else "") + error + (f" (and {others} more fail)" if others else "")

    def _count_of(self, name: str) -> str:
        """Return a counter's value as text, "n/a" where it raises: that must not end the node that reports."""
        try:
            return str(self._counted[name]())
        except Exception:
            if name not in self._uncountable:
                self._uncountable.add(name)
                _log.exception("%s cannot be counted (said once)", name)
            return "n/a"

    def _stalled_s(self, work: WorkState, now_s: float) -> float:
        """Return for how many seconds results have been due and none has gone out, as far as the reports saw."""
        answered = self._counts["results"]
        if not work.is_owed:
            self._owed_since_s = None
        elif self._owed_since_s is None or answered != self._answered:
            self._owed_since_s = now_s
        self._answered = answered
        return 0.0 if self._owed_since_s is None else now_s - self._owed_since_s


def _stuck(work: WorkState, stalled_s: float, stuck_after_s: float) -> str:
    """Return why no more results are to be expected; empty where they are."""
    if work.has_died:
        return "a thread that works on frames has ended: restart the node, and report what its log says"
    if work.busy_s > stuck_after_s:
        return f"stuck on one frame for {work.busy_s:.0f} s"
    if stalled_s > stuck_after_s:
        return f"frames come in, and for {stalled_s:.0f} s no result has gone out"
    return ""


class StampGaps:
    """Detects single missing frames in the stream of a camera with a steady rate.

    A gap counts as missing frames only in hindsight, when the camera continues with the period that it had before: a
    camera that slows down, for a longer exposure say, or pauses, loses nothing. At an unsteady rate nothing counts.
    """

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._passed: deque[int] = deque(maxlen=_KNOWN + 1 + _CONFIRMED)

    def reset(self) -> None:
        """Forget all stamps, after a frame whose stamp is not known."""
        self._last_ns = None
        self._passed.clear()

    def add(self, stamp_ns: int) -> int:
        """Take the stamp of the next frame; returns how many frames are now known to be missing."""
        last, self._last_ns = self._last_ns, stamp_ns
        if last is None:
            return 0
        if stamp_ns <= last:
            self._passed.clear()
            return 0
        self._passed.append(stamp_ns - last)
        return self._missing() if len(self._passed) == self._passed.maxlen else 0

    def _missing(self) -> int:
        """Return the number of frames missing in the gap after which five intervals have been seen."""
        *before, gap = list(self._passed)[: _KNOWN + 1]
        after = list(self._passed)[_KNOWN + 1 :]
        rough = median(before)
        # the mean of several intervals cancels noise; a multiple of one interval would multiply its noise
        period = fmean([each for each in before if abs(each / rough - 1) <= _TOLERANCE] or [rough])
        count = round(gap / period) - 1
        if not 0 < count < _PAUSE or abs(gap / period - (count + 1)) > _TOLERANCE:
            return 0
        return count if _mostly(before, period) and _mostly(after, period) else 0


def _mostly(passed: list[int], period: float) -> bool:
    """Tell whether more than half of the intervals are one period long."""
    return sum(abs(each / period - 1) <= _TOLERANCE for each in passed) > len(passed) / 2
