# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The quota of processor time, as both versions of control groups state it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cacheinf_ros.processor_quota import processor_quota

V1 = "4:memory:/a/b\n1:cpu,cpuacct:/a/b\n"


def quota(folder: Path, own: str, **files: str) -> float:
    """Return the quota by a listing of groups and by files, of which ``__`` in a name is a folder."""
    for name, text in files.items():
        path = folder.joinpath("groups", *name.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name.replace("_max", ".max").replace("cpu_cfs", "cpu.cfs")).write_text(text)
    (folder / "own").write_text(own)
    return processor_quota(folder / "own", folder / "groups")


def test_version_2(tmp_path: Path) -> None:
    assert quota(tmp_path, "0::/a/b\n", a__b__cpu_max="50000 100000\n") == 0.5


def test_the_least_quota_of_all_groups_counts(tmp_path: Path) -> None:
    files = {"a__b__cpu_max": "300000 100000", "a__cpu_max": "150000 100000", "cpu_max": "max 100000"}
    assert quota(tmp_path, "0::/a/b\n", **files) == 1.5


def test_version_1(tmp_path: Path) -> None:
    files = {"cpu,cpuacct__a__b__cpu_cfs_quota_us": "25000", "cpu,cpuacct__a__b__cpu_cfs_period_us": "100000"}
    assert quota(tmp_path, V1, **files) == 0.25
    assert quota(tmp_path, V1, **files | {"cpu,cpuacct__a__b__cpu_cfs_quota_us": "-1"}) == math.inf


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    """The listing has the path on the host, which is not mounted."""
    assert quota(tmp_path, "0::/docker/4711\n", cpu_max="200000 100000") == 2.0
    other = tmp_path / "other"
    other.mkdir()
    files = {"cpu__cpu_cfs_quota_us": "200000", "cpu__cpu_cfs_period_us": "100000"}
    assert quota(other, "1:cpu:/docker/4711\n", **files) == 2.0


@pytest.mark.parametrize("text", ["", "many", "1 0", "max"])
def test_what_cannot_be_read_is_no_quota(tmp_path: Path, text: str) -> None:
    assert quota(tmp_path, "0::/a\n", a__cpu_max=text) == math.inf
    assert processor_quota(tmp_path / "absent", tmp_path) == math.inf


def test_this_process() -> None:
    assert processor_quota() > 0
