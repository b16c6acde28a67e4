# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Detection of the classes that dominate a stream (MCDNN, section 5.2.1).

A stream is n,p-dominated where its n most frequent classes make up at least a share p of the recent results. The pairs
are the paper's; to look for the most specific one first, and the rules that end a dominance, are ours.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

_TOLERANCE = 1e-9  # rounding: 27 of 30 count as 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The parameters n and p of a dominance.

    Attributes:
        n: number of classes.
        p: least share of the results that they make up.
    """

    n: int
    p: float


PAIRS = tuple(Pair(n=n, p=p) for n, p in product((7, 14, 21), (0.95, 0.9, 0.8, 0.7, 0.6)))
"""The pairs to look for, the most specific first: fewest classes, then the largest share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dominance:
    """The classes that dominate a stream.

    Attributes:
        pair: the parameters for which the stream is dominated.
        classes: the n most frequent classes (fewer where fewer were seen), the most frequent first.
        shares: for each of the classes, its share of the recent results.
    """

    pair: Pair
    classes: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def share(self) -> float:
        """The share of the recent results that all these classes make up together."""
        return sum(self.shares)


def find_dominance(counts: Mapping[int, int], classes: int, pairs: Sequence[Pair] = PAIRS) -> Dominance | None:
    """Return the dominance by the first of the pairs that holds, or None.

    Args:
        counts: how often each class was recently seen.
        classes: number of the model's classes; n must be smaller.
        pairs: the pairs to look for, in this order.
    """
    total = sum(counts.values())
    if not total:
        return None
    order = sorted((c for c in counts if counts[c] > 0), key=lambda c: (-counts[c], c))
    for pair in pairs:
        chosen = tuple(order[: pair.n])
        if pair.n < classes and sum(counts[c] for c in chosen) >= (pair.p - _TOLERANCE) * total:
            return Dominance(pair=pair, classes=chosen, shares=tuple(counts[c] / total for c in chosen))
    return None


class ClassWindow:
    """Counts the classes of the last seconds' results, each in constant time."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, int]] = deque()
        self.counts: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def span_s(self) -> float:
        """The time between the first counted result and the last."""
        return self._seen[-1][0] - self._seen[0][0] if self._seen else 0.0

    def add(self, class_id: int, now_s: float) -> None:
        """Count a result; where time went back, the stream has restarted, and the window is cleared first."""
        if self._seen and now_s < self._seen[-1][0]:
            self.clear()
        self._seen.append((now_s, class_id))
        self.counts[class_id] += 1
        while self._seen[0][0] <= now_s - self._window_s:
            self.counts[self._seen.popleft()[1]] -= 1

    def clear(self) -> None:
        """Forget all results."""
        self._seen.clear()
        self.counts.clear()

    def share(self, classes: Collection[int]) -> float:
        """Return the share of results that are of these classes; 1 without results."""
        return sum(self.counts[c] for c in classes) / len(self._seen) if self._seen else 1.0
