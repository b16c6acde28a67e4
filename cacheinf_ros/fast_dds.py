# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sets up Fast DDS for images before rclpy starts, where the user has not set it up.

A publisher's shared-memory segment is 512 KB by default, too small for a raw 640x480 image: of those that are
published best effort, nearly all are lost without a word. config/fastdds.xml gives our publishers a larger one. A
camera driver has its own, which we cannot change; but we can choose how it reaches us, and UDP with a large buffer
takes every image (config/fastdds_udp.xml) where the system allows such a buffer.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.install_paths import share_folder

PROFILES_VARIABLE = "FASTDDS_DEFAULT_PROFILES_FILE"
BY_LAUNCH_VARIABLE = "CACHEINF_PROFILES_BY_LAUNCH"
"""Set where it was a launch file of ours that chose the profiles for everything it starts, and not the user."""
_USERS_OWN = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_BUILTIN_TRANSPORTS")
_FAST_DDS = ("", "rmw_fastrtps_cpp", "rmw_fastrtps_dynamic_cpp")
_SHARED_MEMORY = "/dev/shm"
_LEAST_SHARED_BYTES = 6 * 16_777_216  # segments of a camera, our nodes and some others; a container may have less
_LARGEST_BUFFER = Path("/proc/sys/net/core/rmem_max")
RECEIVE_BUFFER_BYTES = 4_194_304
"""What config/fastdds_udp.xml asks for: more than half a raw 1920x1080 image, and Linux grants twice of it."""

HOLE_REMEDY = "keep strangers off the network (docs/trust.md), or take 3.4.1, 3.3.1 or 2.6.11"
"""What helps where Fast DDS has a known hole."""
_MENDED = ((2, 6, 11), (3, 3, 1), (3, 4, 1))  # CVE-2025-64438: of their series, and of the last one whatever follows
_LIBRARY = re.compile(r"libfast(?:dds|rtps)\.so\.(\d+)\.(\d+)\.(\d+)")

LOSS_REMEDY = (
    "let it publish reliably, or let the system take whole images: `sudo sysctl -w net.core.rmem_max=4194304` and "
    "restart this node, or start the camera with FASTDDS_DEFAULT_PROFILES_FILE set to this package's config/fastdds.xml"
)
"""What helps where images of a camera on this machine are lost."""


def set_up_middleware(environment: MutableMapping[str, str] = os.environ, largest_buffer: int | None = None) -> str:
    """Choose Fast DDS profiles for this process; call it before rclpy starts.

    Args:
        environment: of the process; the variable of the profiles is set in it.
        largest_buffer: bytes that the system allows a socket to buffer; None: ask the system.

    Returns:
        the file that is used, or an empty text where the user's own set-up is left alone, or where there is too little
        shared memory (/dev/shm) for it.
    """
    if environment.get("RMW_IMPLEMENTATION", "") not in _FAST_DDS or any(environment.get(n) for n in _USERS_OWN):
        return ""
    try:
        folder = share_folder() / "config"
    except ConfigError:
        return ""
    if environment.get(PROFILES_VARIABLE) and not environment.get(BY_LAUNCH_VARIABLE):
        return ""
    if _free_shared_memory() < _LEAST_SHARED_BYTES:
        return ""
    allowed = _largest_buffer() if largest_buffer is None else largest_buffer
    chosen = folder / ("fastdds_udp.xml" if allowed >= RECEIVE_BUFFER_BYTES else "fastdds.xml")
    if not chosen.is_file():
        return ""
    environment[PROFILES_VARIABLE] = str(chosen)
    return str(chosen)


def loaded_version(mapped: Path = Path("/proc/self/maps")) -> tuple[int, int, int] | None:
    """The version of the Fast DDS that this process has loaded; None: it has not, or the system does not say.

    Args:
        mapped: names the libraries that are loaded.
    """
    try:
        found = _LIBRARY.search(mapped.read_text())
    except OSError:
        return None
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def known_hole(version: tuple[int, int, int]) -> str:
    """What a stranger on the network can do to this version; empty: nothing that is known here."""
    is_mended = version >= _MENDED[-1] or any(version[:2] == mended[:2] and version >= mended for mended in _MENDED)
    return "" if is_mended else "CVE-2025-64438, anybody on the network can make it take all memory"


def _free_shared_memory() -> int:
    try:
        room = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return 0
    return room.f_bavail * room.f_frsize


def _largest_buffer() -> int:
    try:
        return int(_LARGEST_BUFFER.read_text())
    except (OSError, ValueError):
        return 0
