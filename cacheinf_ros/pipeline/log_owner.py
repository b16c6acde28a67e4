# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tells for which node a thread works: where several cameras share a process, each log line names its camera's node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_owner: ContextVar[str] = ContextVar("log_owner", default="")


def log_owner() -> str:
    """Return the name of the logger of the node that this thread works for; empty: of none, or it is not known."""
    return _owner.get()


@contextmanager
def logging_as(owner: str) -> Iterator[None]:
    """Let this thread work for a node within the block; ``owner``: the name of the node's logger."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


def owned(work: Callable[[], None]) -> Callable[[], None]:
    """Return ``work`` for another thread, which then works for the same node as this one."""
    owner = log_owner()

    def work_for_owner() -> None:
        with logging_as(owner):
            work()

    return work_for_owner
