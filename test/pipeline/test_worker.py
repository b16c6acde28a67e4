# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The worker thread."""

from __future__ import annotations

import threading
import time

from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.pipeline.pairing import FramePairing, LatestQueue
from cacheinf_ros.pipeline.worker import Worker

DEADLINE_S = 20.0


def test_the_latest_frame_wins_while_the_worker_is_busy() -> None:
    queue: LatestQueue[int] = LatestQueue(1)
    busy, free, done = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def work(item: int) -> None:
        seen.append(item)
        busy.set()
        assert free.wait(DEADLINE_S)
        if item == 4:
            done.set()

    worker = Worker(queue, work)
    worker.start()
    worker.tell(lambda: queue.put(0))
    assert busy.wait(DEADLINE_S)
    assert worker.busy_s > 0
    for i in range(1, 5):
        worker.tell(lambda i=i: queue.put(i))
    free.set()
    assert done.wait(DEADLINE_S)
    worker.stop()
    assert seen == [0, 4]
    assert queue.dropped == 3


def test_it_wakes_when_a_frame_has_waited_long_enough() -> None:
    pairs: FramePairing[str] = FramePairing(map_timeout_ns=10_000_000)
    done = threading.Event()
    worker = Worker(pairs, lambda paired: done.set())
    worker.start()

    worker.tell(lambda: pairs.add_frame("frame", 1, time.monotonic_ns()))
    assert done.wait(DEADLINE_S)
    worker.stop()


def test_it_may_be_stopped_before_it_started() -> None:
    assert Worker(LatestQueue[int](1), lambda item: None).stop()


def test_an_item_that_fails_is_not_the_last() -> None:
    queue: LatestQueue[int] = LatestQueue(10)
    seen, done = [], threading.Event()

    def work(item: int) -> None:
        seen.append(item)
        if item == 0:
            raise RuntimeError("a bug")
        done.set()

    worker = Worker(queue, work)
    worker.start()
    for i in range(2):
        worker.tell(lambda i=i: queue.put(i))
    assert done.wait(DEADLINE_S)
    worker.stop()
    assert seen == [0, 1]


def test_who_gives_way_goes_on_when_the_work_is_done_or_takes_too_long() -> None:
    queue: LatestQueue[threading.Event] = LatestQueue(1)
    finished = []

    def work(free: threading.Event) -> None:
        assert free.wait(DEADLINE_S)
        finished.append(free)

    worker = Worker(queue, work)
    worker.start()
    quick, slow = threading.Event(), threading.Event()
    quick.set()
    worker.tell(lambda: queue.put(quick))
    worker.give_way(DEADLINE_S)
    assert finished == [quick]
    worker.tell(lambda: queue.put(slow))
    worker.give_way(0.01)  # goes on although nothing is done
    assert finished == [quick]
    slow.set()
    worker.stop()


def test_who_stops_it_knows_whether_it_has_ended_and_what_was_left() -> None:
    queue: LatestQueue[int] = LatestQueue(10)
    busy, free = threading.Event(), threading.Event()

    def work(item: int) -> None:
        busy.set()
        assert free.wait(DEADLINE_S)

    rested: list[int] = []
    worker = Worker(queue, work, lambda: rested.append(0))
    worker.start()
    worker.tell(lambda: queue.put(0))
    assert busy.wait(DEADLINE_S)
    for i in range(1, 4):
        worker.tell(lambda i=i: queue.put(i))
    assert worker.dropped == 0
    assert not worker.stop(0.01)
    assert (worker.is_owed, worker.dropped) == (True, 3)
    free.set()
    assert worker.stop(DEADLINE_S)
    assert (worker.is_owed, worker.dropped) == (False, 3)
    assert rested == []  # the rest is skipped, as it may take long


class Spoilt(LatestQueue[int]):
    """A queue that raises instead of returning the item 0."""

    def take(self, now_ns: int) -> int | None:
        item = super().take(now_ns)
        if item == 0:
            raise ValueError("a bad map")
        return item


def test_an_inbox_that_fails_is_asked_again_and_is_not_silent() -> None:
    queue, seen, said, done = Spoilt(10), [], [], threading.Event()

    def work(item: int) -> None:
        seen.append(item)
        done.set()

    worker = Worker(queue, work, failed=said.append)
    worker.start()
    worker.tell(lambda: queue.put(0))
    worker.give_way(DEADLINE_S)
    assert len(said) == 1
    assert "ValueError: a bad map" in said[0]
    worker.tell(lambda: queue.put(1))
    assert done.wait(DEADLINE_S)
    worker.stop()
    assert seen == [1]


def test_rest_that_fails_is_told_and_not_the_last() -> None:
    queue: LatestQueue[int] = LatestQueue(1)
    said, told = [], threading.Event()

    def failed(reason: str) -> None:
        said.append(reason)
        told.set()

    def rest() -> None:
        raise CacheinfError("no time")

    worker = Worker(queue, lambda item: None, rest, failed)
    worker.start()
    for _ in range(2):
        told.clear()
        worker.tell(lambda: queue.put(0))
        assert told.wait(DEADLINE_S)
    worker.stop()
    assert said == ["no time"] * 2
