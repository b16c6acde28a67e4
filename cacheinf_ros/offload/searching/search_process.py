# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A search for schedules in a process of its own: it takes a processor, and must not hold up the robots' frames."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Self

from cacheinf_ros.background_process import command_of, program_environment
from cacheinf_ros.errors import SearchError

_PROGRAM = Path(__file__).with_name("search_program.py")
_MORE_S = 60.0  # allowed beyond the search: imports, and the last steps, at low priority
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class SearchProcess:
    """Searches at low priority, and ends with this process, however this one ends; use it as a context manager.

    All input and output crosses pipes: nothing is left on the disk.
    """

    def __init__(self, problem: bytes, time_limit_s: float) -> None:
        """Start the process.

        Args:
            problem: see :func:`.search_problem.problem_bytes`.
            time_limit_s: how long it searches.

        Raises:
            SearchError: the system could not start a process.
        """
        self._problem = problem
        self._time_limit_s = time_limit_s
        watched, self._held = os.pipe()  # only this process has the other end, so it closes when this process ends
        try:
            self._process = subprocess.Popen(
                command_of(_PROGRAM, str(watched)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, pass_fds=[watched], env=program_environment(**_ONE_THREAD),
                start_new_session=True,  # Ctrl-C in the terminal is for the parent
            )  # fmt: skip
        except OSError as error:
            os.close(self._held)
            raise SearchError(f"no process could be started for the search: {error}") from None
        finally:
            os.close(watched)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.kill()
        self._process.__exit__(*raised)  # waits for the process, and closes the pipes
        os.close(self._held)

    @property
    def pid(self) -> int:
        """The ID of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once; any thread may call it. :meth:`answer` then raises."""
        self._process.kill()

    def answer(self) -> bytes:
        """Wait for the table that the search found, see :func:`.search_messages.table_bytes`.

        Raises:
            SearchError: the search failed, or did not end in time.
        """
        try:
            found, said = self._process.communicate(self._problem, self._time_limit_s + _MORE_S)
        except subprocess.TimeoutExpired:
            raise SearchError(f"the search did not end within {self._time_limit_s + _MORE_S:g} s") from None
        if self._process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            raise SearchError(f"the search failed: {lines[-1] if lines else f'exit code {self._process.returncode}'}")
        return found
