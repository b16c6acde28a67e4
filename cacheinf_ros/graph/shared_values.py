# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Values that are derived from a model once for all who run it, such as weights in another order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, cast
from weakref import WeakValueDictionary

T = TypeVar("T")


class Shared(Generic[T]):
    """A value, which is shared as long as somebody holds this object.

    Attributes:
        source: what the value was made of; kept alive, as it is known by its identity.
        value: value that was made.
    """

    __slots__ = ("__weakref__", "source", "value")

    def __init__(self, source: object, value: T) -> None:
        self.source, self.value = source, value


class SharedValues:
    """The shared values of a model, usable from several threads; a value that nobody holds any more is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._values: WeakValueDictionary[tuple[int, Hashable], Shared[object]] = WeakValueDictionary()

    def get(self, source: object, kind: Hashable, make: Callable[[], T]) -> Shared[T]:
        """Return what was made of this very object before, if somebody still holds that, else what ``make`` returns.

        Args:
            kind: what else the result of ``make`` depends on.
        """
        with self._lock:
            shared = self._values.get((id(source), kind))
            if shared is None:
                shared = self._values[id(source), kind] = Shared(source, make())
            return cast(Shared[T], shared)

    def held(self) -> list[tuple[Hashable, Shared[object]]]:
        """Return the values that somebody holds now, each with its kind."""
        with self._lock:
            return [(kind, shared) for (_, kind), shared in self._values.items()]
