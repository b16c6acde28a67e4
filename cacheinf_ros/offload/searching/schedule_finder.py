# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds a robot's schedules: CacheInf's algorithm 1, lines 1 to 3."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from cacheinf_ros.errors import MessageError
from cacheinf_ros.low_priority import lower_priority
from cacheinf_ros.offload.planning.plan_table import ScheduleTable
from cacheinf_ros.offload.planning.planner import Scheduler
from cacheinf_ros.offload.planning.stored_plans import kept_table, load_or_solve
from cacheinf_ros.offload.planning.workload import Workload
from cacheinf_ros.offload.protocol.schedule_request import ScheduleRequest
from cacheinf_ros.offload.searching.search_messages import most_table_bytes, question_bytes, table_of
from cacheinf_ros.pipeline import guarded, owned

_log = logging.getLogger(__name__)


class ScheduleFinder:
    """Gives a scheduler its table: a stored one, or the server's, or, if the server declines, one searched here.

    Until then the scheduler uses simple schedules. :meth:`poll` and :meth:`close` must be called by one thread.

    Attributes:
        request: what the session is to ask the server; None: nothing, or nothing any more.
    """

    def __init__(
        self,
        model: str,
        workload: Workload,
        scheduler: Scheduler,
        searching: threading.Lock,
        note: Callable[[str], None],
        *,
        search_s: float,
        prefix: str = "",
    ) -> None:
        """Look for a stored table, and ask the server where there is none.

        Args:
            model: the model's name, for files.
            workload: the network.
            scheduler: gets the table, and knows the machines: T_c and T_s.
            searching: held while this process searches, so that there is one search at a time.
            note: takes the state of the search, for diagnostics.
            search_s: how long to search, by the server or here.
            prefix: the prefix of texts in the log.
        """
        self._model, self._workload, self._scheduler = model, workload, scheduler
        self._searching, self._note, self._search_s, self._prefix = searching, note, search_s, prefix
        self._is_closing = False
        self.request: ScheduleRequest | None = None
        self._kept = kept_table(model, workload, scheduler.measured, time_limit_s=search_s)
        stored = self._kept.read()
        if stored is not None:
            self._use(stored, "stored before")
            return
        self._note("the server is asked")
        question = question_bytes(workload, scheduler.measured, search_s)
        self.request = ScheduleRequest(question, most_table_bytes(workload))

    def poll(self) -> None:
        """Check what the server has answered; must be called now and then."""
        request = self.request
        if request is None:
            return
        if request.refusal:
            self._search_here(request.refusal)
        elif request.answer is not None:
            self._take(request.answer)
        elif request.is_searched:
            self._note("the server searches")

    def close(self) -> None:
        """Start no more searches, and ask the server for none."""
        self._is_closing = True
        if self.request is not None:
            self.request.withdraw()

    def _take(self, answer: bytes) -> None:
        try:
            table = table_of(answer, self._workload)
        except MessageError as error:
            self._search_here(str(error))
            return
        self.request = None
        self._kept.write(table)
        self._use(table, "by the server")

    def _use(self, table: ScheduleTable, whence: str) -> None:
        self._scheduler.table = table
        self._note(f"solved {whence}")
        _log.info("%sschedules are solved %s", self._prefix, whence)

    def _search_here(self, reason: str) -> None:
        """Search in this process, and log once that the server does not."""
        self.request = None
        _log.warning("%sschedules are searched for here, for the server does not: %s", self._prefix, reason)
        threading.Thread(target=owned(lambda: self._solve(reason)), daemon=True).start()

    def _solve(self, reason: str) -> None:
        here = f"here, for the server does not: {reason}"
        with guarded(f"{self._prefix}no schedules were found, only simple ones are used") as failure:
            lower_priority()
            self._note(f"waiting for another search {here}")
            with self._searching:
                if self._is_closing:
                    return
                self._note(f"searching {here}")
                table = load_or_solve(
                    self._model, self._workload, self._scheduler.measured, time_limit_s=self._search_s
                )
            self._use(table, here)
        if failure:
            self._note(f"failed: {failure.reason}")
