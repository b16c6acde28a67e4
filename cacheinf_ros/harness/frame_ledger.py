# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Records what became of each frame that a camera sent: answered rightly, wrongly, with an error, or not at all.

Once all frames are settled, and nothing went wrong, the number of frames sent is the sum of the counts of RIGHT,
STATED, EXCUSED and UNOWED.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

SILENCE_S = 5.0
"""How long a frame may wait until its process counts as silent, in seconds: longer than 99 in 100 recoveries take."""


class Fate(Enum):
    """What became of a frame."""

    RIGHT = "right"
    STATED = "stated error"
    AGAIN = "answered again, as it was sent again"
    WRONG = "wrong"
    TWICE = "answered too often"
    UNASKED = "answered without a frame"
    MISSING = "missing"
    EXCUSED = "excused"
    UNOWED = "owed no answer, and has none"

    @property
    def is_fault(self) -> bool:
        """Whether this must never happen, whatever fault strikes the machines."""
        return self in (Fate.WRONG, Fate.TWICE, Fate.UNASKED, Fate.MISSING)


@dataclass(slots=True)
class _Sent:
    """A frame that was sent and is not settled yet.

    Attributes:
        at_s: when the frame was last sent.
        answers: how many answers it may still get: one for each time that it was sent.
        must: whether it must be answered, because its node was there and awake.
        is_excused: whether it had to be answered until it was excused.
    """

    at_s: float
    answers: int = 1
    must: bool = True
    is_excused: bool = False
    was_answered: bool = False

    @property
    def is_awaited(self) -> bool:
        """Whether it must be answered and is not yet."""
        return self.must and not self.was_answered

    @property
    def fate(self) -> Fate:
        """What becomes of the frame if it gets no answer."""
        return Fate.MISSING if self.must else Fate.EXCUSED if self.is_excused else Fate.UNOWED


class FrameLedger:
    """The frames of one camera, by stamp. For one thread at a time; times are seconds of any one clock.

    Attributes:
        sent: number of frames sent; one that was sent twice counts once.
        fates: how often each fate occurred. A frame that was sent twice may have two answers and needs one; the fate of
            a frame without an answer is settled when nobody waits for it any more.
        missing: how many frames had no answer, by the log of the process that ran when that was found.
        silent: how many excused frames had waited for more than 5 s by then, by the log of their process: had it lived
            on, they might have become missing.
    """

    def __init__(self, patience_s: float, log: Callable[[], str] = lambda: "") -> None:
        """Begin without frames.

        Args:
            patience_s: how long a frame may wait for its answer.
            log: returns the name of the log of the process that is to answer now.
        """
        self.sent = 0
        self.fates: Counter[Fate] = Counter()
        self.missing: Counter[str] = Counter()
        self.silent: Counter[str] = Counter()
        self._log = log
        self._patience_s = patience_s
        self._sent: dict[int, _Sent] = {}
        self._right: list[tuple[float, float]] = []  # (sent, answered) of frames that were answered rightly

    @property
    def waiting(self) -> int:
        """The number of frames that must be answered and are not yet."""
        return sum(frame.is_awaited for frame in self._sent.values())

    def send(self, stamp_ns: int, at_s: float, *, must: bool) -> None:
        """Note that a frame is sent, or sent once more.

        Args:
            must: whether it must be answered; it need not where its node is dead, starting or new to the camera.
        """
        frame = self._sent.get(stamp_ns)
        if frame is None:
            self.sent += 1
            self._sent[stamp_ns] = _Sent(at_s=at_s, must=must)
        else:
            frame.at_s, frame.answers = at_s, frame.answers + 1

    def answer(self, stamp_ns: int, at_s: float, fate: Fate) -> Fate:
        """Note an answer and return its fate: ``fate`` (RIGHT, STATED, WRONG), AGAIN, or TWICE or UNASKED."""
        frame = self._sent.get(stamp_ns)
        if frame is None:
            fate = Fate.UNASKED
        elif frame.answers == 0:
            fate = Fate.TWICE
        else:
            frame.answers -= 1
            if fate is Fate.RIGHT:
                self._right.append((frame.at_s, at_s))
            if frame.was_answered and fate in (Fate.RIGHT, Fate.STATED):
                fate = Fate.AGAIN
            frame.was_answered = True
        self.fates[fate] += 1
        return fate

    def excuse(self, now_s: float, sent_by_s: float = math.inf) -> None:
        """Excuse frames that wait: their node was killed, or has not received them yet and their camera was restarted.

        Args:
            sent_by_s: later frames are not excused; one sent to a paused node counts as sent when that went on.
        """
        awaited = [frame for frame in self._sent.values() if frame.is_awaited and frame.at_s <= sent_by_s]
        self.silent[self._log()] += sum(now_s - frame.at_s > SILENCE_S for frame in awaited)
        for frame in awaited:
            frame.must, frame.is_excused = False, True

    def postpone(self, until_s: float) -> None:
        """Restart the waiting time of all frames that wait at this time: their node was paused until then."""
        for frame in self._sent.values():
            frame.at_s = max(frame.at_s, until_s)

    def settle(self, now_s: float) -> int:
        """Forget frames that nobody waits for any more; return how many of them were missing."""
        overdue = [stamp for stamp, frame in self._sent.items() if now_s - frame.at_s > self._patience_s]
        frames = [self._sent.pop(stamp) for stamp in overdue]
        fates = Counter(frame.fate for frame in frames if not frame.was_answered)
        self.fates += fates
        self.missing[self._log()] += fates[Fate.MISSING]
        return fates[Fate.MISSING]

    def recovered(self, since_s: float) -> tuple[float, float] | None:
        """Return when the first frame sent after a time and answered rightly was sent and answered; None: none yet."""
        right = [(answered, sent) for sent, answered in self._right if sent >= since_s]
        answered, sent = min(right, default=(None, None))
        return None if answered is None or sent is None else (sent, answered)
