# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Searches for schedules in a process of its own: a program for :mod:`.search_process` to start.

It reads a problem from its standard input, and writes the table to its standard output. From its first lines on it
watches the pipe whose number it is given, and whose other end its parent holds: the pipe is closed when the parent
ends, however it ends, and then this process ends too. It writes no files.
"""

from __future__ import annotations

import os
import sys

from cacheinf_ros.background_process import end_with_parent
from cacheinf_ros.low_priority import NICE


def _main() -> None:
    # imported late: it takes seconds, in which the parent is already watched
    from cacheinf_ros.offload.searching.search_messages import table_bytes
    from cacheinf_ros.offload.searching.search_problem import problem_of

    with os.fdopen(os.dup(1), "wb") as answers, os.fdopen(0, "rb") as questions:
        os.dup2(2, 1)  # what libraries print must not get into the answer
        answers.write(table_bytes(problem_of(questions.read()).solve()))


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.nice(NICE)
    _main()
