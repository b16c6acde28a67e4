# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The node's report in /diagnostics about its models and what is left of the budget."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from cacheinf_ros.catalog.scheduling.budgets import Account
from cacheinf_ros.pipeline import Health

_UNKNOWN = "n/a"
_WINDOW = 20  # requests over which a rate is averaged


def whole_frames_prefix(model: str) -> str:
    """Return how texts about a model's session for whole frames begin, in the log and in diagnostics."""
    return f"{model}, whole frames: "


class BudgetReport:
    """Writes models and budget to :class:`Health`; may be used from several threads."""

    def __init__(self, health: Health, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; no models are reported until :meth:`follow`."""
        self._health = health
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter()
        self._asked_s: dict[str, deque[float]] = {}
        self._forget_budget()

    def follow(self, models: Sequence[str]) -> None:
        """Report about these models from now on: those that were followed go on, others disappear."""
        for gone in set(self._asked_s) - set(models):
            for prefix in (f"{gone}: ", whole_frames_prefix(gone)):
                self._health.erase(prefix)
            self._health.forget(gone)
            for name in ("refused", "served"):
                self._counts.pop((gone, name), None)
        for model in set(models) - set(self._asked_s):
            for name in ("variant", "place", "served", "refused", "rate_hz"):
                self._health.note(f"{model}: {name}", _UNKNOWN)
        self._asked_s = {model: self._asked_s.get(model) or deque(maxlen=_WINDOW) for model in models}

    def answered(self, model: str, *, variant: str = "", where: str = "", error: str = "") -> None:
        """Count a request: the variant that served it and where, or the error where it was refused."""
        asked_s = self._asked_s.get(model)
        if asked_s is None:  # it took so long that the node has freed its models meanwhile
            return
        asked_s.append(self._clock())
        self._counts[model, "refused" if error else "served"] += 1
        for name in ("served", "refused"):
            self._health.note(f"{model}: {name}", str(self._counts[model, name]))
        if len(asked_s) > 1 and asked_s[-1] > asked_s[0]:
            self._health.note(f"{model}: rate_hz", f"{(len(asked_s) - 1) / (asked_s[-1] - asked_s[0]):.3g}")
        if not error:
            self._health.note(f"{model}: variant", variant)
            self._health.note(f"{model}: place", where)

    def close(self) -> None:
        """Report about no model any more, and of the budget only that nothing is known."""
        self.follow(())
        self._forget_budget()

    def _forget_budget(self) -> None:
        for name in ("energy_left_j", "money_left", "horizon_left_s", "variants_mb"):
            self._health.note(name, _UNKNOWN)

    def left(self, account: Account, horizon_s: float, used_bytes: int) -> None:
        """Report what is left of the budgets, for how many seconds, and the device memory that variants take."""
        self._health.note("energy_left_j", f"{account.energy_j:.4g}")
        self._health.note("money_left", f"{account.money:.4g}")
        self._health.note("horizon_left_s", f"{max(0.0, horizon_s):.1f}")
        self._health.note("variants_mb", f"{used_bytes / 1e6:.1f}")
