# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The places where requests are served: the device, and a server for whole frames or for parts of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cacheinf_ros.catalog.scheduling import Load
from cacheinf_ros.catalog.serving.device_models import DeviceModels, PartitionLoader, View
from cacheinf_ros.energy import Spent

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CloudAnswer(Generic[T]):
    """The outcome of a request to the server.

    Attributes:
        answer: the answer; None: none came in time.
        class_id: the class of the answer; None: there is no answer, or no classes.
        money: dollars to be paid; without an answer only for what was sent.
        load_money: the part of it that is for loading the variant.
        link_ms: time on the link, both ways.
        why: why there is no answer.
        pause_s: for how many seconds the variant had better not be asked for on the server, while others may be.
        is_full: whether the server only has no place: it had better be asked again after the same time.
        replaces: whether the server has given up for it what it had loaded for the model, even if it was asked to load
            that again, as this variant was refused.
    """

    answer: T | None
    money: float
    load_money: float = 0.0
    link_ms: float = 0.0
    class_id: int | None = None
    why: str = ""
    pause_s: float = 0.0
    is_full: bool = False
    replaces: bool = False


class Cloud(Protocol[T]):
    """The server as a place for whole frames."""

    def is_up(self, model: str) -> bool:
        """Tell whether a model's requests are worth sending."""
        ...

    def settle(self, model: str) -> None:
        """Take note of what the server has said since the last request of a model; must be called before the next."""
        ...

    def ask(self, model: str, variant: str, view: View, why: str, *, is_new: bool) -> CloudAnswer[T]:
        """Send a frame, and wait for its result; ``is_new`` says that the server has to load the variant first."""
        ...

    def probe(self, model: str, view: View) -> float:
        """Probe a lost server without waiting, if it is time to; returns dollars to be paid."""
        ...

    def release(self, model: str) -> None:
        """Give up the places that the model has at the server for whole frames, as its frames are split now."""
        ...


class Split(PartitionLoader, Protocol):
    """The server as a place for parts of frames."""

    def is_lost(self, model: str) -> bool:
        """Tell whether the model's requests should be served without the server, as it is lost."""
        ...

    def in_the_way(self, load: Load, room_bytes: int) -> list[str]:
        """Return the models to drop before this load, given what is left of the device's memory."""
        ...

    def take(self, took_ms: float) -> tuple[Spent, float]:
        """Return what was spent since the last call, in which so many ms have passed, and the dollars to be paid."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places(Generic[T]):
    """The places where requests are served; ``split`` and ``cloud`` are None where there is no server.

    Attributes:
        server_load: returns the share of its time that the server is busy, 0 to 1, as it reports; None: no server.
    """

    device: DeviceModels
    split: Split | None
    cloud: Cloud[T] | None
    server_load: Callable[[], float] | None
