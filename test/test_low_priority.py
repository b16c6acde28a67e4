# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Background work has lower priority than frames, even in a node that has a low priority itself."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cacheinf_ros.low_priority import LOWEST, NICE, lower_priority


@pytest.mark.parametrize(("before", "after"), [(0, NICE), (NICE + 5, NICE + 5), (LOWEST, LOWEST)])
def test_a_thread_comes_after_others_and_never_before(before: int, after: int) -> None:
    """Users may not raise a priority again: the attempt once ended the thread."""

    def lowered() -> int:
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(before, os.getpriority(os.PRIO_PROCESS, thread)))
        lower_priority()
        return os.getpriority(os.PRIO_PROCESS, thread)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lowered).result() >= after
