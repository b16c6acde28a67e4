# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The quota of processor time that a container or a service has, which Linux's control groups enforce.

All threads of a control group draw on it, whatever their priority: work in the background takes it from frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_OWN = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


def processor_quota(own: Path = _OWN, root: Path = _ROOT) -> float:
    """Return how many processors' worth of time this process may use at most; infinity where there is no quota.

    Args:
        own: lists the process's control groups, see cgroups(7).
        root: where control groups are mounted, of version 1, 2 or both.
    """
    try:
        lines = own.read_text(errors="replace").splitlines()
    except OSError:  # a system without control groups
        return math.inf
    quotas = [math.inf]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for folder in _folders(root, controllers, path):
            with suppress(OSError, ValueError, ZeroDivisionError):  # not every folder has a quota
                quotas.append(_of_version_1(folder) if controllers else _of_version_2(folder))
    return min(quotas)


def _folders(root: Path, controllers: str, path: str) -> Iterator[Path]:
    """Yield the control group's folder and those of the groups that it lies in.

    In a container ``path`` may be that on the host, while the container's own group is mounted as the root.
    """
    if controllers and "cpu" not in controllers.split(","):
        return
    mounts = [root / controllers, root / "cpu"] if controllers else [root, root / "unified"]
    inner = Path(path.lstrip("/"))
    for mount in mounts:
        yield from (mount / group for group in (inner, *inner.parents))


def _of_version_1(folder: Path) -> float:
    quota_us = int((folder / "cpu.cfs_quota_us").read_text())
    return quota_us / int((folder / "cpu.cfs_period_us").read_text()) if quota_us > 0 else math.inf


def _of_version_2(folder: Path) -> float:
    quota_us, period_us = (folder / "cpu.max").read_text().split()
    return math.inf if quota_us == "max" else int(quota_us) / int(period_us)
