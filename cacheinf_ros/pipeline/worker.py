# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The thread that does a node's work, so that callbacks and parameter services never wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from cacheinf_ros.pipeline.guard import guarded
from cacheinf_ros.pipeline.log_owner import owned

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_NS_PER_S = 1e9
_RETRY_S: float | None = 0.1  # before an inbox that raised is asked again


class Inbox(Protocol[T_co]):
    """Decides what to work on next; see :mod:`cacheinf_ros.pipeline.pairing`."""

    dropped: int

    @property
    def waiting(self) -> int:
        """The number of items that wait."""
        ...

    def take(self, now_ns: int) -> T_co | None:
        """Return the item to work on now; None where there is none."""
        ...

    def deadline_ns(self) -> int | None:
        """Return when to ask again, even if nothing new has come; None: never."""
        ...

    def drop_all(self) -> None:
        """Drop all items that wait, because none are taken any more."""
        ...


class Worker(Generic[T]):
    """Takes items from an inbox and works on them, one at a time, in its own thread.

    No exception ends the thread. What goes wrong with a frame should be part of that frame's result; what ``work``,
    ``rest`` or the inbox raise nevertheless is logged, and passed to ``failed``.
    """

    def __init__(
        self,
        inbox: Inbox[T],
        work: Callable[[T], None],
        rest: Callable[[], None] = lambda: None,
        failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Prepare the thread, which logs for the same node as this one.

        Args:
            inbox: decides what to work on next.
            work: works on an item.
            rest: is called each time when nothing is left to work on.
            failed: takes the reason of a failure that nothing else reports.
        """
        self._inbox = inbox
        self._work = work
        self._rest = rest
        self._failed = failed
        self._changed = threading.Condition()
        self._stopping = False
        self._is_done = True  # has worked on all that the inbox gave
        self._may_be_awaited = False
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=owned(self._loop), name="worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 3.0) -> bool:
        """Finish the item at hand and stop; what is left in the inbox is dropped.

        Returns:
            whether the thread has ended within this time.
        """
        with self._changed:
            self._stopping = True
            self._inbox.drop_all()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def tell(self, change: Callable[[], None]) -> None:
        """Change the inbox, such as by storing a frame in it, and have the worker look into it again."""
        with self._changed:
            change()
            self._may_be_awaited = self._busy_since is None  # else it works on something older
            self._is_done = False
            self._changed.notify_all()

    def give_way(self, timeout_s: float) -> None:
        """Let the worker have the interpreter until it has done what it was told, but no longer than this.

        Threads share one interpreter: whoever goes on in Python after :meth:`tell` delays the worker.
        """
        with self._changed:
            if self._may_be_awaited:
                self._changed.wait_for(lambda: self._is_done, timeout_s)
            self._may_be_awaited = False  # only once: work that takes long is not waited for again

    @property
    def dropped(self) -> int:
        """The number of items that the inbox has dropped."""
        return self._inbox.dropped

    @property
    def busy_s(self) -> float:
        """How long the worker has worked on the item at hand, in seconds; 0 when idle."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_owed(self) -> bool:
        """Whether an item waits or is worked on."""
        return self._busy_since is not None or self._is_waiting()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, or has not ended yet."""
        return self._thread.is_alive()

    @property
    def has_died(self) -> bool:
        """Whether the thread has ended without being asked to."""
        return self._thread.ident is not None and not self._stopping and not self._thread.is_alive()

    def _loop(self) -> None:
        while (item := self._next()) is not None:
            self._busy_since = time.monotonic()
            with guarded("work on a frame") as working:
                self._work(item)
            with guarded("work between frames") as resting:
                if not (self._stopping or self._is_waiting()):
                    self._rest()
            if working or resting:
                self._failed(working.reason or resting.reason)
            self._busy_since = None

    def _next(self) -> T | None:
        with self._changed:
            while not self._stopping:
                item, patience_s = None, _RETRY_S
                with guarded("which frame is next") as failure:
                    item = self._inbox.take(time.monotonic_ns())
                    patience_s = self._patience_s()
                if item is not None:
                    return item
                if failure:
                    self._failed(failure.reason)
                self._is_done = True
                self._changed.notify_all()
                self._changed.wait(patience_s)
        return None

    def _is_waiting(self) -> bool:
        with self._changed:
            return self._inbox.waiting > 0

    def _patience_s(self) -> float | None:
        deadline_ns = self._inbox.deadline_ns()
        return None if deadline_ns is None else max(0.0, (deadline_ns - time.monotonic_ns()) / _NS_PER_S) + 1e-4
