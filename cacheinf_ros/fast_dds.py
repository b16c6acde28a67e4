# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Set up Fast DDS for images before rclpy starts, where the user has not set it up.

A publisher's shared-memory segment is 512 KB by default, too small for a raw 640x480 image: nearly all images that are
published best effort are then lost silently. config/fastdds.xml gives our publishers a larger segment. A camera driver
has its own, which we cannot change; but we can choose how its images reach us, and UDP with a large buffer takes every
image (config/fastdds_udp.xml) where the system allows such a buffer.

All profiles switch off Fast DDS's exchange of types. A process that meets a type before it uses it itself asks for it,
and hears of no publisher of that type until the answer has come. It misses an answer that comes before it has noted
that it asked (TypeLookupManager::check_type_identifier_received of 3.2.2), and then never hears of them.

Where messages come by shared memory, each start of a process takes a port of its own for them. Fast DDS gives a process
the lowest free port, so that one that is killed and started again has the port of the dead one, which it deletes and
makes anew. Whoever wrote to the old one does so until Fast DDS finds nobody waiting there: for a second or three, or
for good where the reader was killed between waiting and working (SharedMemGlobal::Port of 3.2.2, is_zombie and
update_status_all_listeners).

All profiles have writers send heartbeats every 0.1 s instead of every 3 s, so that lost messages are soon sent again.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.install_paths import share_folder

PROFILES_VARIABLE = "FASTDDS_DEFAULT_PROFILES_FILE"
BY_LAUNCH_VARIABLE = "CACHEINF_PROFILES_BY_LAUNCH"
"""The environment variable that is set where one of our launch files, and not the user, chose the profiles."""
QOS_FROM_PROFILES_VARIABLE = "RMW_FASTRTPS_USE_QOS_FROM_XML"
"""The environment variable with which rmw_fastrtps leaves buffers and the mode of publishing to the profiles."""
DATA_PORT_VARIABLE = "CACHEINF_DATA_PORT_OFFSET"
"""The environment variable that our profiles for shared memory read: the port of data, from the first of its domain."""
USUAL_DATA_PORT = 11
"""The offset of the first process in any domain (RTPS 2.5, section 9.6.2.3: d3)."""
# Fast DDS goes on by two from a port in use: what is left up to a domain's 249 is for that. Domain 232 has 135 in all.
_DATA_PORTS = range(USUAL_DATA_PORT, 132, 2)
_USERS_OWN = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_BUILTIN_TRANSPORTS")
_PUBLICATION_MODE = "RMW_FASTRTPS_PUBLICATION_MODE"  # not read where the profiles say how to publish
_FAST_DDS = ("", "rmw_fastrtps_cpp", "rmw_fastrtps_dynamic_cpp")
_SHARED_MEMORY = "/dev/shm"
_LEAST_SHARED_BYTES = 6 * 16_777_216  # segments of a camera, our nodes and some others; a container may have less
_LARGEST_BUFFER = Path("/proc/sys/net/core/rmem_max")
RECEIVE_BUFFER_BYTES = 4_194_304
"""The receive buffer of config/fastdds_udp.xml: more than half a raw 1920x1080 image; Linux grants twice that."""

HOLE_REMEDY = "keep strangers off the network (docs/trust.md), or take 3.4.1, 3.3.1 or 2.6.11"
"""The remedy where the loaded Fast DDS has a known vulnerability."""
_MENDED = ((2, 6, 11), (3, 3, 1), (3, 4, 1))  # first of each series without CVE-2025-64438; all later ones are mended
_LIBRARY = r"libfast(?:dds|rtps)\.so"

LOSS_REMEDY = (
    "let it publish reliably, or let the system take whole images: `sudo sysctl -w net.core.rmem_max=4194304` and "
    "restart this node, or start the camera with FASTDDS_DEFAULT_PROFILES_FILE set to this package's config/fastdds.xml"
)
"""The remedy where images of a camera on this machine are lost."""


def set_up_middleware(
    environment: MutableMapping[str, str] = os.environ,
    largest_buffer: int | None = None,
    shared_bytes: int | None = None,
) -> str:
    """Choose Fast DDS profiles for this process; call it before rclpy starts.

    Args:
        environment: environment variables of the process; those that name the profiles file and a data port are set.
        largest_buffer: bytes that the system allows a socket to buffer; None: the system is asked.
        shared_bytes: bytes of shared memory that are free (/dev/shm); None: the system is asked.

    Returns:
        The profiles file that is used. Empty where another middleware runs, where the user's own set-up is left alone,
        or where the profiles are not installed.
    """
    environment[DATA_PORT_VARIABLE] = str(secrets.choice(_DATA_PORTS))  # counts only in profiles that name it
    chosen = _chosen_profiles(environment, largest_buffer, shared_bytes)
    if chosen:
        environment[PROFILES_VARIABLE] = chosen
    return chosen


def _chosen_profiles(environment: Mapping[str, str], largest_buffer: int | None, shared_bytes: int | None) -> str:
    folder = _profiles_folder()
    if folder is None or _is_set_up_by_user(environment):
        return ""
    if environment.get(PROFILES_VARIABLE) and not environment.get(BY_LAUNCH_VARIABLE):
        return ""
    allowed = _largest_buffer() if largest_buffer is None else largest_buffer
    chosen = folder / ("fastdds_udp.xml" if allowed >= RECEIVE_BUFFER_BYTES else "fastdds.xml")
    if (_free_shared_memory() if shared_bytes is None else shared_bytes) < _LEAST_SHARED_BYTES:
        chosen = folder / "fastdds_small.xml"
    return str(chosen) if chosen.is_file() else ""


def _is_set_up_by_user(environment: Mapping[str, str]) -> bool:
    """Whether another middleware runs, or Fast DDS is told what to do in another way than by a profiles file."""
    return environment.get("RMW_IMPLEMENTATION", "") not in _FAST_DDS or any(environment.get(n) for n in _USERS_OWN)


def free_message_buffers(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set up the middleware for a process that many processes send large messages to; call it before rclpy starts.

    Fast DDS keeps as many buffers for a topic as ever held messages at once, each as large as it ever was: tens of
    megabytes where packets of several robots come together. With this, buffers are freed. Images take 0.1 to 0.7 ms
    longer that way, so nodes of a robot keep theirs. Where the user has set up Fast DDS, other than by our own files,
    nothing happens.
    """
    set_up_middleware(environment)
    if _is_set_up_by_user(environment) or environment.get(_PUBLICATION_MODE):
        return
    profiles = environment.get(PROFILES_VARIABLE, "")
    if profiles and Path(profiles).parent == _profiles_folder():  # also those that the process was started with
        environment.setdefault(QOS_FROM_PROFILES_VARIABLE, "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLibrary:
    """The library of Fast DDS that a process has loaded.

    Attributes:
        path: its file.
        version: None: neither its name nor those beside it say.
    """

    path: Path
    version: tuple[int, int, int] | None


def loaded_library(mapped: Path = Path("/proc/self/maps")) -> LoadedLibrary | None:
    """Return the library of Fast DDS that this process has loaded; None: none is, or the system does not say.

    Args:
        mapped: file that names the loaded libraries.
    """
    try:
        found = re.search(rf"(?:/.*/)?{_LIBRARY}\S*", mapped.read_text())
    except OSError:
        return None
    if found is None:
        return None
    path = Path(found[0])
    # the wheels hold copies where others have links, and load the one whose name has two numbers
    beside = [path, *path.parent.glob(f"{path.name}.*")]
    versions = {version for file in beside if (version := _version(file.name)) is not None}
    return LoadedLibrary(path=path, version=versions.pop() if len(versions) == 1 else None)


def _version(name: str) -> tuple[int, int, int] | None:
    found = re.fullmatch(rf"{_LIBRARY}\.(\d+)\.(\d+)\.(\d+)", name)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def known_hole(version: tuple[int, int, int]) -> str:
    """Return what a stranger on the network can do to this version; empty: nothing that is known here."""
    is_mended = version >= _MENDED[-1] or any(version[:2] == mended[:2] and version >= mended for mended in _MENDED)
    return "" if is_mended else "CVE-2025-64438, anybody on the network can make it take all memory"


def _profiles_folder() -> Path | None:
    try:
        return share_folder() / "config"
    except ConfigError:
        return None


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
