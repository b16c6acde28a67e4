# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the scripts that train built-in networks have in common."""

from __future__ import annotations

import time

_EVERY = 50  # steps


class Progress:
    """Prints the mean loss now and then."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._started, self._recent = time.monotonic(), 0.0

    def __call__(self, step: int, loss: float) -> None:
        """A step was made."""
        self._recent += loss / _EVERY
        if step % _EVERY == 0:
            took = time.monotonic() - self._started
            print(f"step {step}/{self._steps}  loss {self._recent:.3f}  {took:.0f} s", flush=True)
            self._recent = 0.0
