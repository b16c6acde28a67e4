# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How much of a processor this process gets.

Profiles are measured from the fastest of a few runs, and do not show it.
"""

from __future__ import annotations

import time
from typing import Self

_MOST = 20.0


class Contention:
    """Measures the thread that uses it as a context manager, which should do nothing but compute meanwhile.

    Attributes:
        slowdown: how many times longer the block took than on a processor of its own.
    """

    slowdown = 1.0

    def __enter__(self) -> Self:
        self._started = time.monotonic(), time.thread_time()
        return self

    def __exit__(self, *raised: object) -> None:
        elapsed, used = time.monotonic() - self._started[0], time.thread_time() - self._started[1]
        self.slowdown = min(max(1.0, elapsed / used), _MOST) if used > 0 else 1.0
