# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What became of each frame that a camera sent: answered rightly, wrongly, with a stated error, or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum


class Fate(Enum):
    """What became of a frame."""

    RIGHT = "right"
    STATED = "stated error"
    WRONG = "wrong"
    TWICE = "answered too often"
    UNASKED = "answered without a frame"
    MISSING = "missing"
    EXCUSED = "excused"

    @property
    def is_fault(self) -> bool:
        """Whether this must never happen, whatever befalls the machines."""
        return self in (Fate.WRONG, Fate.TWICE, Fate.UNASKED, Fate.MISSING)


@dataclass(slots=True)
class _Sent:
    """A frame on its way.

    Attributes:
        at_s: when it was last sent.
        answers: how many it may still have: one for each time that it was sent.
        must: whether it must have one: its node was there and awake.
    """

    at_s: float
    answers: int = 1
    must: bool = True
    was_answered: bool = False


class FrameLedger:
    """The frames of one camera, by stamp. For one thread at a time; times are seconds of any one clock.

    Attributes:
        fates: how often each was seen. A frame that was sent twice may have two answers and needs one.
    """

    def __init__(self, patience_s: float) -> None:
        """``patience_s``: how long a frame may wait for its answer."""
        self.fates: Counter[Fate] = Counter()
        self._patience_s = patience_s
        self._sent: dict[int, _Sent] = {}
        self._right: list[tuple[float, float]] = []  # (sent, answered) of frames that were answered rightly

    @property
    def waiting(self) -> int:
        """How many frames must have an answer and have none."""
        return sum(frame.must and not frame.was_answered for frame in self._sent.values())

    def send(self, stamp_ns: int, at_s: float, *, must: bool) -> None:
        """Note a frame that is sent; once more where it was sent before.

        Args:
            must: whether it must be answered: not where its node is dead, starting or new to the camera.
        """
        frame = self._sent.get(stamp_ns)
        if frame is None:
            self._sent[stamp_ns] = _Sent(at_s=at_s, must=must)
        else:
            frame.at_s, frame.answers = at_s, frame.answers + 1

    def answer(self, stamp_ns: int, at_s: float, fate: Fate) -> Fate:
        """Note an answer and return what it is: ``fate`` (RIGHT, STATED, WRONG), or that nobody waited for it."""
        frame = self._sent.get(stamp_ns)
        if frame is None:
            fate = Fate.UNASKED
        elif frame.answers == 0:
            fate = Fate.TWICE
        else:
            frame.answers -= 1
            frame.was_answered = True
            if fate is Fate.RIGHT:
                self._right.append((frame.at_s, at_s))
        self.fates[fate] += 1
        return fate

    def excuse(self) -> None:
        """Excuse all frames that wait: their node was killed, or their camera restarted while it slept."""
        for frame in self._sent.values():
            if frame.must and not frame.was_answered:
                frame.must = False
                self.fates[Fate.EXCUSED] += 1

    def postpone(self, until_s: float) -> None:
        """Let the patience with all frames that wait begin at a time: their node slept until then."""
        for frame in self._sent.values():
            frame.at_s = max(frame.at_s, until_s)

    def settle(self, now_s: float) -> int:
        """Forget frames that nobody waits for any more; returns how many of them were missing."""
        overdue = [stamp for stamp, frame in self._sent.items() if now_s - frame.at_s > self._patience_s]
        frames = [self._sent.pop(stamp) for stamp in overdue]
        missing = sum(frame.must and not frame.was_answered for frame in frames)
        self.fates[Fate.MISSING] += missing
        return missing

    def recovery_s(self, since_s: float) -> float | None:
        """Seconds from a time to the first right answer of a frame that was sent after it; None: there is none yet."""
        answered = [answered for sent, answered in self._right if sent >= since_s]
        return min(answered) - since_s if answered else None
