# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Threads log for the node that started them, where several nodes share a process."""

from __future__ import annotations

import threading

from cacheinf_ros.pipeline.background_thread import start_background
from cacheinf_ros.pipeline.log_owner import log_owner, logging_as
from cacheinf_ros.pipeline.pairing import LatestQueue
from cacheinf_ros.pipeline.worker import Worker

DEADLINE_S = 20.0


class Owner:
    """An object that has a background thread."""


def test_threads_log_for_the_node_that_starts_them() -> None:
    owners: dict[str, str] = {}
    queues: list[LatestQueue[str]] = []
    workers: list[Worker[str]] = []
    owner, threads = Owner(), []
    answered = threading.Semaphore(0)

    def work(name: str) -> None:
        owners[name] = log_owner()
        answered.release()

    for node in ("front.node", "left.node"):
        with logging_as(node):
            queue: LatestQueue[str] = LatestQueue(1)
            queues.append(queue)
            workers.append(Worker(queue, work))
            workers[-1].start()
            threads.append(start_background(owner, lambda node=node: work(f"{node} beside"), "beside"))
    for node, queue, worker in zip(("front.node", "left.node"), queues, workers, strict=True):
        worker.tell(lambda node=node, queue=queue: queue.put(f"{node} worker"))
    assert all(answered.acquire(timeout=DEADLINE_S) for _ in range(4))
    for worker in workers:
        worker.stop()
    assert all(name.startswith(owner) for name, owner in owners.items()) and "" not in owners.values()
    assert log_owner() == ""


def test_the_owner_of_before_is_back_after_a_block() -> None:
    with logging_as("front"):
        with logging_as("left"):
            assert log_owner() == "left"
        assert log_owner() == "front"
