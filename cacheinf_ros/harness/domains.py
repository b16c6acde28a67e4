# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reserves ROS domains for nodes that are started for a question and that nobody else is to hear."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cacheinf_ros.errors import CacheinfError

_RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_DOMAINS = range(1, 101)  # ports of higher domains overlap Linux's ephemeral ports
_FIRST_PORT, _PORTS, _UNICAST = 7400, 250, 10  # of DDS discovery (RTPS 2.5, 9.6.2.3): d0 is 0 for multicast
_PORT = re.compile(r"(?:sem\.)?fast(?:dds|rtps)_port(\d+)")


@contextlib.contextmanager
def private_domain() -> Iterator[int]:
    """Reserve a domain that stays on this machine, for nodes that inherit this process' environment."""
    before = os.environ.get(_RANGE)
    os.environ[_RANGE] = "LOCALHOST"
    try:
        with reserved_domain() as domain:
            yield domain
    finally:
        del os.environ[_RANGE]
        os.environ.update({} if before is None else {_RANGE: before})


@contextlib.contextmanager
def reserved_domain() -> Iterator[int]:
    """Yield a ROS_DOMAIN_ID that nobody else on this machine uses.

    One of which nothing is left in shared memory comes first: killed processes may have held locks there.

    Raises:
        CacheinfError: all domains are in use.
    """
    used = domains_with_ports()
    for domain in sorted(random.SystemRandom().sample(_DOMAINS, len(_DOMAINS)), key=used.__contains__):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(_locked(domain))
            _refuse_if_heard(domain)
            kept = stack.pop_all()
            break
    else:
        raise CacheinfError(f"all ROS domains from {_DOMAINS[0]} to {_DOMAINS[-1]} are in use on this machine")
    with kept:
        yield domain


def domains_with_ports(folder: Path = Path("/dev/shm")) -> set[int]:
    """Return the domains of whose Fast DDS ports something is left in shared memory, in use or not."""
    try:
        found = [_PORT.match(path.name) for path in folder.iterdir()]
    except OSError:
        return set()
    return {(int(match[1]) - _FIRST_PORT) // _PORTS for match in found if match is not None}


@contextlib.contextmanager
def _locked(domain: int) -> Iterator[None]:
    """Lock a domain against other users of this module; the lock ends with the process. Raises OSError if locked."""
    path = Path(tempfile.gettempdir()) / f"cacheinf_ros_domain_{domain}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _refuse_if_heard(domain: int) -> None:
    """Raise OSError if the first participant of the domain on this machine is present."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", _FIRST_PORT + _PORTS * domain + _UNICAST))
