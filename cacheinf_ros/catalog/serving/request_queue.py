# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides which model is asked next: each at its own rate, about the latest image.

It uses neither ROS nor threads, and the clock is an argument.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[T]):
    """A request to a model.

    Attributes:
        model: the model that is asked.
        frame: the image that it is asked about.
    """

    model: str
    frame: T


@dataclass(slots=True)
class _Model:
    """When a model was last due by its rate, and the number of the image that it was last asked about."""

    asked_ns: int | None = None
    image: int = 0


class RequestQueue(Generic[T]):
    """A queue from images to requests; a model is not asked twice about one image."""

    def __init__(
        self,
        models: Sequence[str],
        rates_hz: Callable[[], Sequence[float]],
        clock: Callable[[], int] = time.monotonic_ns,
        together: Callable[[str], Sequence[str]] = lambda model: (),
    ) -> None:
        """Begin without an image.

        Args:
            models: the models to ask.
            rates_hz: returns the present rate of each model.
            together: returns the models, of the same rate, that should be asked about the same image as this one.
            clock: returns nanoseconds, as ``now_ns`` of :meth:`take`.
        """
        self._models = {name: _Model() for name in models}
        self._rates_hz = rates_hz
        self._clock = clock
        self._together = together
        self._promised: deque[Asked[T]] = deque()
        self._frame: T | None = None
        self._image = 0  # number of the latest image
        self._was_taken = False
        self.dropped = 0
        """The number of images that no model was asked about."""

    def put(self, frame: T) -> None:
        """Put an image in, in place of the one before it."""
        self.dropped += self._frame is not None and not self._was_taken
        self._frame, self._image, self._was_taken = frame, self._image + 1, False

    def take(self, now_ns: int) -> Asked[T] | None:
        """Return the request that has been due for the longest time, or None."""
        if self._promised:
            return self._promised.popleft()
        due = [(since_ns, name) for name, since_ns in self._due().items() if since_ns <= now_ns]
        if not due or self._frame is None:
            return None
        since_ns, name = min(due)
        model = self._models[name]
        # requests keep their rhythm, but those that were missed are not made up for
        is_late = model.asked_ns is None or now_ns - since_ns >= self._periods_ns()[name]
        model.asked_ns = now_ns if is_late else since_ns
        model.image, self._was_taken = self._image, True
        for other in self._together(name):
            follower = self._models[other]
            if follower.image < self._image:
                follower.asked_ns, follower.image = model.asked_ns, self._image
                self._promised.append(Asked(model=other, frame=self._frame))
        return Asked(model=name, frame=self._frame)

    @property
    def waiting(self) -> int:
        """The number of requests that are due."""
        now_ns = self._clock()
        return len(self._promised) + sum(since_ns <= now_ns for since_ns in self._due().values())

    def deadline_ns(self) -> int | None:
        """Return when the next request is due if no image comes before; None: never."""
        if self._promised:
            return 0
        return min(self._due().values(), default=None)

    def drop_all(self) -> None:
        """Forget the image, and the requests that are due."""
        self.dropped += self._frame is not None and not self._was_taken
        self._promised.clear()
        self._frame = None
        for model in self._models.values():
            model.image = self._image

    def _due(self) -> dict[str, int]:
        """Return the due time of each model that has not been asked about the latest image."""
        owing = {name: model for name, model in self._models.items() if model.image < self._image}
        periods = self._periods_ns() if owing else {}  # the rates may be those of other models by now
        return {name: 0 if model.asked_ns is None else model.asked_ns + periods[name] for name, model in owing.items()}

    def _periods_ns(self) -> dict[str, int]:
        return {name: round(_NS_PER_S / rate) for name, rate in zip(self._models, self._rates_hz(), strict=True)}
