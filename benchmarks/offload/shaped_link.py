# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A second network stack on this machine, connected by a link of limited bandwidth: the way to a server.

It needs root on Linux: it uses a network namespace, a pair of virtual interfaces, and a token bucket at each end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Self

from cacheinf_ros.errors import CacheinfError

_HERE, _THERE = "10.213.7.1", "10.213.7.2"
_QUEUE_BYTES = 8_000_000  # packets that wait are delayed, not lost: DDS would resend lost ones
_LEAST_BURST = 16_000  # bytes: more than a packet


class LinkShapingError(CacheinfError):
    """Raised where this machine cannot limit a link."""


class ShapedLink:
    """A link of limited bandwidth to a network namespace; a context manager.

    Attributes:
        prefix: words to put before a command so that it runs at the other end.
    """

    def __init__(self, mbit_s: float) -> None:
        self._namespace = f"cacheinf{os.getpid()}"
        self._near, self._far = f"ci{os.getpid()}a", f"ci{os.getpid()}b"
        self.prefix: Sequence[str] = ("ip", "netns", "exec", self._namespace)
        self._mbit_s = mbit_s

    def __enter__(self) -> Self:
        if not (shutil.which("ip") and shutil.which("tc")):
            raise LinkShapingError("limiting a link takes the commands ip and tc: install iproute2")
        try:
            self._build()
        except LinkShapingError:
            self._remove()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._remove()

    def limit(self, mbit_s: float) -> None:
        """Change the bandwidth of both directions."""
        self._mbit_s = mbit_s
        for words in (("tc",), (*self.prefix, "tc")):
            device = self._near if words == ("tc",) else self._far
            burst = max(_LEAST_BURST, int(mbit_s * 1e6 / 8 * 0.002))  # 2 ms at this bandwidth
            _run(
                *words, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit_s * 1000:.0f}kbit", "burst",
                str(burst), "limit", str(_QUEUE_BYTES),
            )  # fmt: skip

    def cut(self, *, is_cut: bool) -> None:
        """Cut the link, or connect it again."""
        _run("ip", "link", "set", self._near, "down" if is_cut else "up")

    def _build(self) -> None:
        name = self._namespace
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far)
        _run("ip", "link", "set", self._far, "netns", name)
        _run("ip", "addr", "add", f"{_HERE}/24", "dev", self._near)
        _run("ip", "link", "set", self._near, "up", "multicast", "on")
        _run(*self.prefix, "ip", "addr", "add", f"{_THERE}/24", "dev", self._far)
        _run(*self.prefix, "ip", "link", "set", self._far, "up", "multicast", "on")
        _run(*self.prefix, "ip", "link", "set", "lo", "up")
        _run(*self.prefix, "ip", "route", "add", "default", "via", _HERE)
        self.limit(self._mbit_s)

    def _remove(self) -> None:
        for words in (("ip", "link", "del", self._near), ("ip", "netns", "del", self._namespace)):
            subprocess.run(words, capture_output=True, check=False)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LinkShapingError(f"{' '.join(words)}: {done.stderr.strip()}; limiting a link needs root")
