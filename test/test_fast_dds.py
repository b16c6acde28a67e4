# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Fast DDS is configured for images, unless the user has configured it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cacheinf_ros.fast_dds import (
    BY_LAUNCH_VARIABLE,
    DATA_PORT_VARIABLE,
    PROFILES_VARIABLE,
    QOS_FROM_PROFILES_VARIABLE,
    RECEIVE_BUFFER_BYTES,
    free_message_buffers,
    known_hole,
    loaded_library,
    set_up_middleware,
)

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "config"
PROFILES = ("fastdds.xml", "fastdds_udp.xml", "fastdds_small.xml")
OWN: list[dict[str, str]] = [
    {"FASTDDS_BUILTIN_TRANSPORTS": "LARGE_DATA"},
    {"FASTRTPS_DEFAULT_PROFILES_FILE": "/mine.xml"},
    {PROFILES_VARIABLE: "/mine.xml"},
    {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"},
]
TAG = "{http://www.eprosima.com}"


def test_images_of_others_come_over_udp_where_its_buffer_may_be_large() -> None:
    small: dict[str, str] = {}
    large: dict[str, str] = {}
    assert set_up_middleware(small, largest_buffer=212_992, shared_bytes=2**30) == small[PROFILES_VARIABLE]
    assert set_up_middleware(large, RECEIVE_BUFFER_BYTES, shared_bytes=2**30) == large[PROFILES_VARIABLE]
    assert small[PROFILES_VARIABLE].endswith("fastdds.xml")
    assert large[PROFILES_VARIABLE].endswith("fastdds_udp.xml")


def test_a_container_with_little_shared_memory_gets_segments_of_the_usual_size() -> None:
    for largest_buffer in (212_992, RECEIVE_BUFFER_BYTES):
        environment: dict[str, str] = {}
        assert set_up_middleware(environment, largest_buffer, shared_bytes=64 * 2**20).endswith("fastdds_small.xml")
    assert not list(ElementTree.parse(CONFIG / "fastdds_small.xml").iter(f"{TAG}segment_size"))


def test_what_the_launch_files_set_is_ours_to_change() -> None:
    environment = {BY_LAUNCH_VARIABLE: "1"}
    set_up_middleware(environment, largest_buffer=0)
    assert set_up_middleware(environment, 2**30, shared_bytes=2**30).endswith("fastdds_udp.xml")


def test_a_user_may_choose_shared_memory_for_camera_and_nodes() -> None:
    environment = {PROFILES_VARIABLE: str(CONFIG / "fastdds.xml")}
    assert set_up_middleware(environment, largest_buffer=2**30) == ""
    assert environment[PROFILES_VARIABLE].endswith("fastdds.xml")


def test_every_start_has_a_data_port_of_its_own_within_its_domain() -> None:
    """Also with profiles chosen by the user, and where the process that starts this one has a port."""
    users = {PROFILES_VARIABLE: str(CONFIG / "fastdds.xml"), DATA_PORT_VARIABLE: "11"}
    for environment in ({}, users):
        offsets = set()
        for _ in range(300):
            set_up_middleware(environment, largest_buffer=0)
            offsets.add(int(environment[DATA_PORT_VARIABLE]))
        assert len(offsets) > 30
        assert all(offset % 2 and 11 <= offset < 250 for offset in offsets)  # even ones are for discovery
        assert 7400 + 250 * 232 + max(offsets) < 2**16  # the last domain that ROS 2 has


@pytest.mark.parametrize("own", OWN)
def test_what_the_user_has_set_up_is_left_alone(own: dict[str, str]) -> None:
    environment = dict(own)
    assert set_up_middleware(environment, largest_buffer=2**30) == ""
    del environment[DATA_PORT_VARIABLE]  # which counts only where the user's profiles name it
    assert environment == own


def test_a_server_frees_what_messages_took() -> None:
    ours: dict[str, str] = {}
    free_message_buffers(ours)
    assert ours[PROFILES_VARIABLE]
    assert ours[QOS_FROM_PROFILES_VARIABLE] == "1"
    inherited = {PROFILES_VARIABLE: ours[PROFILES_VARIABLE]}  # from a process of ours that started this one
    free_message_buffers(inherited)
    assert {**inherited, DATA_PORT_VARIABLE: ours[DATA_PORT_VARIABLE]} == ours
    launched = {**inherited, BY_LAUNCH_VARIABLE: "1"}
    free_message_buffers(launched)
    assert launched[QOS_FROM_PROFILES_VARIABLE] == "1"


@pytest.mark.parametrize(
    "own",
    [
        *OWN,
        {QOS_FROM_PROFILES_VARIABLE: "0"},
        {"RMW_FASTRTPS_PUBLICATION_MODE": "ASYNCHRONOUS"},  # would not be read
        {PROFILES_VARIABLE: str(CONFIG / "fastdds.xml"), "FASTDDS_BUILTIN_TRANSPORTS": "LARGE_DATA"},
    ],
)
def test_a_server_frees_nothing_where_the_user_has_set_up_fast_dds(own: dict[str, str]) -> None:
    environment = dict(own)
    free_message_buffers(environment)
    assert environment.get(QOS_FROM_PROFILES_VARIABLE) == own.get(QOS_FROM_PROFILES_VARIABLE)


def test_profiles_for_a_server_free_buffers_and_else_say_what_ros_says() -> None:
    """The variable makes rmw_fastrtps leave these three to the profiles, so that each of them has to be there."""
    for name in PROFILES:
        profiles = ElementTree.parse(CONFIG / name)
        for kind in ("data_reader", "data_writer"):
            (entity,) = profiles.iter(f"{TAG}{kind}")
            assert entity.get("is_default_profile") == "true"
            assert entity.findtext(f"{TAG}historyMemoryPolicy") == "DYNAMIC"
            assert entity.findtext(f"{TAG}qos/{TAG}data_sharing/{TAG}kind") == "OFF"
        assert profiles.findtext(f".//{TAG}data_writer/{TAG}qos/{TAG}publishMode/{TAG}kind") == "SYNCHRONOUS"


def test_writers_send_a_heartbeat_every_tenth_of_a_second() -> None:
    for name in PROFILES:
        period = ElementTree.parse(CONFIG / name).find(f".//{TAG}data_writer/{TAG}times/{TAG}heartbeat_period")
        assert period is not None
        assert [each.text for each in period] == ["0", "100000000"]


@pytest.mark.skipif(shutil.which("c++") is None, reason="CMake looks for a C++ compiler")
@pytest.mark.parametrize("libraries", [["fastrtps"], ["fastdds"], ["fastdds", "fastrtps"], ["fastrtps", "fastdds"]])
def test_profiles_are_spelt_as_the_fast_dds_in_use_reads_them(libraries: list[str], tmp_path: Path) -> None:
    """In use is the library of the first prefix: the overlay's."""
    prefixes = [tmp_path / "prefix" / library for library in libraries]
    for prefix, library in zip(prefixes, libraries, strict=True):
        (prefix / "lib").mkdir(parents=True)
        (prefix / "lib" / f"lib{library}.so").touch()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    prefix_path = os.pathsep.join(map(str, prefixes))
    environment = {**os.environ, "PATH": path, "CMAKE_GENERATOR": "Ninja", "AMENT_PREFIX_PATH": prefix_path}
    cmake, build = shutil.which("cmake", path=path), tmp_path / "build"
    assert cmake, "building the package takes cmake"
    command = [cmake, "-S", ROOT, "-B", build, "-DCACHEINF_MESSAGES=OFF"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    installs = (build / "cmake_install.cmake").read_text()
    for name in PROFILES:
        own = build / "config" / name
        assert own.exists() == (libraries[0] == "fastrtps")
        if own.exists():
            assert own.read_text().replace("heartbeatPeriod", "heartbeat_period") == (CONFIG / name).read_text()
            assert "heartbeatPeriod" in own.read_text()
            assert installs.index(f"{ROOT}/config") < installs.index(str(own))  # the later one stays


def test_the_profiles_say_what_the_code_says() -> None:
    (buffer,) = ElementTree.parse(CONFIG / "fastdds_udp.xml").iter(f"{TAG}receiveBufferSize")
    assert int(buffer.text or "") == RECEIVE_BUFFER_BYTES
    for name in ("fastdds.xml", "fastdds_udp.xml"):
        (segment,) = ElementTree.parse(CONFIG / name).iter(f"{TAG}segment_size")
        assert int(segment.text or "") >= 2 * 1080 * 1920 * 3


@pytest.mark.parametrize("version", [(2, 6, 10), (2, 14, 5), (3, 2, 2), (3, 3, 0), (3, 4, 0)])
def test_a_version_with_a_known_hole(version: tuple[int, int, int]) -> None:
    assert "CVE-2025-64438" in known_hole(version)


@pytest.mark.parametrize("version", [(2, 6, 11), (3, 3, 1), (3, 4, 1), (3, 5, 0), (4, 0, 0)])
def test_a_version_that_is_mended(version: tuple[int, int, int]) -> None:
    assert not known_hole(version)


def test_the_version_is_that_of_the_loaded_library(tmp_path: Path) -> None:
    mapped = tmp_path / "maps"
    assert loaded_library(mapped) is None
    for line, version in {
        "/lib/libm.so.6": None,
        "7f00 r /x/libfastdds.so.3.2.2": (3, 2, 2),
        "libfastrtps.so.2.14.5": (2, 14, 5),
    }.items():
        mapped.write_text(line)
        library = loaded_library(mapped)
        assert (library.version if library else None) == version


def test_where_the_loaded_name_is_short_the_file_beside_it_tells_the_version(tmp_path: Path) -> None:
    """The wheels load libfastdds.so.3.2, which is a file and no link."""
    folder, mapped = tmp_path / "with spaces", tmp_path / "maps"
    folder.mkdir()
    mapped.write_text(
        f"7f00-7f01 r-xp 00000000 fe:01 123      {folder}/libfastdds.so.3.2\n7f01-7f02 r-xp /lib/libm.so.6"
    )
    library = loaded_library(mapped)
    assert library is not None and library.path == folder / "libfastdds.so.3.2" and library.version is None
    (folder / "libfastdds.so.3.2.2").touch()
    library = loaded_library(mapped)
    assert library is not None and library.version == (3, 2, 2)
    (folder / "libfastdds.so.3.2.3").touch()  # which of them it is a copy of is unknown
    library = loaded_library(mapped)
    assert library is not None and library.version is None
