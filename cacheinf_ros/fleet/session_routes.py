# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The routes of a relayed session: to the process that computes it, and to the one that it moves to."""

from __future__ import annotations

from cacheinf_ros.fleet.route import Route
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.packets import Kind

_EPOCHS = 2**32  # number of epochs that a packet can encode


class SessionRoutes:
    """Knows the robot's epoch, and which process computes it; the caller sees to it that one thread uses it at a time.

    Attributes:
        epoch: the robot's epoch.
        present: the route to the process that computes the session; None: there is none.
        coming: the route to the process that computes it from the next epoch on; None: it does not move.
    """

    def __init__(self) -> None:
        """Begin without a process."""
        self.epoch = 0
        self.present: Route | None = None
        self.coming: Route | None = None

    @property
    def all(self) -> list[Route]:
        """The routes that there are."""
        return [route for route in (self.present, self.coming) if route is not None]

    @property
    def next_epoch(self) -> int:
        """The epoch after the robot's."""
        return epoch_after(self.epoch)

    def lead_to(self, host: str) -> bool:
        """Tell whether the session is computed by a process, or moves to it."""
        return any(route.place.host == host for route in self.all)

    def enter(self, packet: Packet) -> bool:
        """Enter the epoch of the robot's packet where it greets, or follows a welcome to a process that is prepared.

        Returns:
            whether that is another epoch than before.
        """
        is_prepared = packet.epoch == self.next_epoch and any(route.epoch == packet.epoch for route in self.all)
        if packet.epoch == self.epoch or (packet.kind != Kind.HELLO and not is_prepared):
            return False  # a forged or late packet must not lock the robot out
        self.epoch = packet.epoch
        return True

    def follow(self) -> Route | None:
        """Switch to the process that is coming, ready or not, see :attr:`can_follow`; where none is, to no process.

        Returns:
            the route that was switched from, or None.
        """
        old = self.present
        self.present, self.coming = self.coming, None
        return old

    @property
    def can_follow(self) -> bool:
        """Whether the robot, which is in another epoch, can switch to the process that is coming."""
        return self.coming is not None and bool(self.coming.welcome or self.present is None)

    def lose(self, route: Route) -> bool:
        """Drop the route to a process that is lost; returns whether it computed the session.

        The session goes on with the process that is coming, where that is ready.
        """
        if route is self.coming:
            self.coming = None
        elif route is self.present:
            self.present = None
            if self.coming is not None and self.coming.welcome:
                self.follow()
            return True
        return False

    def take_all(self) -> list[Route]:
        """Return the routes that there are, and forget them."""
        routes = self.all
        self.present = self.coming = None
        return routes


def epoch_after(epoch: int) -> int:
    """Return the next epoch, which wraps around: whoever greets chooses the epoch, and may choose the last one."""
    return (epoch + 1) % _EPOCHS
