# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's searches for schedules on behalf of its robots: CacheInf's algorithm 2, lines 1 to 4."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from cacheinf_ros.engine import Layout, PartitionSpace
from cacheinf_ros.errors import CacheinfError, SearchError
from cacheinf_ros.low_priority import lower_priority
from cacheinf_ros.offload.planning.plan_table import ScheduleTable
from cacheinf_ros.offload.planning.stored_plans import identity, kept_table
from cacheinf_ros.offload.planning.workload import Numbers, Workload
from cacheinf_ros.offload.protocol.schedule_service import Find
from cacheinf_ros.offload.searching.search_messages import Question, question_of, table_bytes, table_of
from cacheinf_ros.offload.searching.search_problem import SearchProblem, problem_bytes
from cacheinf_ros.offload.searching.search_process import SearchProcess
from cacheinf_ros.pipeline import THROTTLE, guarded

_log = logging.getLogger(__name__)

_MOST_WAITING = 8  # questions in the queue
_MOST_KEPT = 100  # tables on the disk: robots may ask whatever they like
_MOST_KNOWN = 16  # results in memory
_GONE_S = 100.0  # the silence after which a session has ended: waiting sessions ask again between any two frames
_NAME = "for_robot"
_PAUSE_S = 1.0  # after a failure that no question has caused
_BUG = "internal error of the server, see its log"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerSide:
    """What a server itself knows of a network that robots ask about.

    Attributes:
        network: the network's hash.
        layout, space: what the network computes, and what of that can be split.
        server_ms: float64 [operators, points]: T_s of algorithm 2, line 2.
    """

    network: str
    layout: Layout
    space: PartitionSpace
    server_ms: Numbers


@dataclass(slots=True, kw_only=True, eq=False)
class _Search:
    """The state of a question.

    Attributes:
        asking: when each session that has no answer yet last asked.
        found: the table; None: there is none yet.
        refusal: why there will be no table; empty: there may be one.
    """

    asking: dict[str, float] = field(default_factory=dict)
    found: bytes | None = None
    refusal: str = ""

    @property
    def has_ended(self) -> bool:
        return self.found is not None or bool(self.refusal)

    def forget_gone(self) -> None:
        """Forget the sessions that have ended, which no longer ask."""
        now_s = time.monotonic()
        self.asking = {session: asked_s for session, asked_s in self.asking.items() if now_s - asked_s <= _GONE_S}


class ScheduleSearches:
    """Searches for one robot after the other, each in a process of its own, and keeps what is found on the disk.

    It may be used by any thread.
    """

    def __init__(self, longest_s: float) -> None:
        """Prepare; ``longest_s`` limits the time of a search; 0: no search is made."""
        self._longest_s = longest_s
        self._changed = threading.Condition()
        self._searches: OrderedDict[bytes, _Search] = OrderedDict()  # by question
        self._waiting: OrderedDict[bytes, tuple[Question, ServerSide]] = OrderedDict()
        self._running: SearchProcess | None = None
        self._thread: threading.Thread | None = None
        self._is_open = True

    def about(self, side: ServerSide) -> Find:
        """Return what answers the questions of sessions of one model; see :data:`.schedule_service.Find`."""
        return partial(self._find, side)

    def close(self) -> None:
        """End the current search and its process, and answer no more questions."""
        with self._changed:
            self._is_open = False
            if self._running is not None:
                self._running.kill()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _find(self, side: ServerSide, session: str, content: bytes) -> bytes | None:
        """Return the table for a question, or None while it is searched for: Receive of algorithm 2, line 1."""
        if self._longest_s <= 0:
            raise SearchError("it searches for nobody (server.search_s is 0)")
        key = hashlib.sha256(repr((side.network, sorted(side.space.dropped))).encode() + content).digest()
        with self._changed:
            if not self._is_open:
                raise SearchError("the server ends")
            search = self._searches.get(key)
            if search is not None and search.found is not None:
                return search.found
            if search is not None:
                search.forget_gone()
            if search is None or (search.refusal and not search.asking):  # nobody is left to be told
                search = self._queue(key, question_of(content, side.server_ms), side, session)
            search.asking[session] = time.monotonic()
            if search.refusal:
                self._leave(key, session)  # the session is told now, and may ask again
                raise SearchError(search.refusal)
            return None

    def _queue(self, key: bytes, question: Question, side: ServerSide, session: str) -> _Search:
        """Queue a question; earlier questions of the session that still wait are withdrawn."""
        for other in list(self._waiting):
            self._leave(other, session)
        if len(self._waiting) >= _MOST_WAITING:
            raise SearchError(f"{_MOST_WAITING} searches are waiting already")
        for old in [old for old, search in self._searches.items() if search.has_ended][: 1 - _MOST_KNOWN]:
            del self._searches[old]
        search = self._searches[key] = _Search()
        self._waiting[key] = question, side
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="schedules", daemon=True)
            self._thread.start()
        self._changed.notify_all()
        return search

    def _leave(self, key: bytes, session: str) -> None:
        """Withdraw a question of a session that waits or came to nothing."""
        asking = self._searches[key].asking
        asking.pop(session, None)
        if not asking:
            del self._searches[key]
            self._waiting.pop(key, None)

    def _work(self) -> None:
        with guarded("searches for schedules do not come after other work"):
            lower_priority()  # workloads are made here
        while self._is_open:
            with guarded("searches for schedules") as failure:
                self._search_next()
            if failure:
                time.sleep(_PAUSE_S)

    def _search_next(self) -> None:
        """Wait for a question, and answer it; the model is not kept in memory after that."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._is_open)
            if not self._is_open:
                return
            key, (question, side) = self._waiting.popitem(last=False)
            search = self._searches[key]
            search.forget_gone()
            if not search.asking:
                del self._searches[key]
                return
        answer: tuple[bytes | None, str] = None, _BUG
        try:
            answer = self._result(question, side)
        finally:
            with self._changed:
                search.found, search.refusal = answer
                if search.found is not None:
                    search.asking.clear()  # the table is there for whoever asks

    def _result(self, question: Question, side: ServerSide) -> tuple[bytes | None, str]:
        """Return the table, or the reason why there is none."""
        try:
            return table_bytes(self._schedule(question, side)), ""
        except CacheinfError as error:
            if self._is_open:
                _log.warning("no schedules for a robot: %s", error, extra=THROTTLE)
            return None, str(error)
        except Exception:  # a bug must not end the thread
            _log.exception("a search for schedules failed")
            return None, _BUG

    def _schedule(self, question: Question, side: ServerSide) -> ScheduleTable:
        """Compute Schedule = ComputeSchedule(T_s, T_c) of algorithm 2, line 3, or read one that is stored."""
        workload = Workload(side.layout, side.space)
        if question.identity != identity(workload, side.server_ms):
            raise SearchError("the robot asks about another network, or another server's times; it must greet anew")
        seconds = min(question.search_s, self._longest_s)
        kept = kept_table(_NAME, workload, question.machines, time_limit_s=seconds)
        table = kept.read()
        if table is None:
            table = self._searched(
                SearchProblem(work=workload, machines=question.machines, time_limit_s=seconds), workload
            )
            kept.write(table)
            _forget_old_files(kept.file.path.parent)
        return table

    def _searched(self, problem: SearchProblem, workload: Workload) -> ScheduleTable:
        with SearchProcess(problem_bytes(problem), problem.time_limit_s) as process:
            _log.info("schedules for a robot are searched for %g s in process %d", problem.time_limit_s, process.pid)
            with self._changed:
                self._running = process
                if not self._is_open:
                    process.kill()
            try:
                return table_of(process.answer(), workload)
            finally:
                with self._changed:
                    self._running = None


def _forget_old_files(folder: Path) -> None:
    with suppress(OSError):
        files = sorted(folder.glob(f"{_NAME}-*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[_MOST_KEPT:]:
            path.unlink()


def server_side(network: str, layout: Layout, space: PartitionSpace, profile: list[list[float]]) -> ServerSide:
    """Return what a server knows of a model; ``profile`` is as the server states it, see :class:`.greeting.Welcome`."""
    return ServerSide(network=network, layout=layout, space=space, server_ms=np.array(profile, np.float64))
