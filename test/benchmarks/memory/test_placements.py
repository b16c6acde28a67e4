# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The memory that the paper's networks need, and allocation problems from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory.networks import mobilenet_v1, mobilenet_v2
from benchmarks.memory.placements import read_instance, run_placement_benchmark
from cacheinf_ros.errors import SourceError
from cacheinf_ros.memory import TensorRecord, least_for_offsets, least_for_shared_objects

MIB = 2**20


def test_mobilenet_v1_as_in_the_paper() -> None:
    records = mobilenet_v1()
    assert round(least_for_shared_objects(records) / MIB, 3) == 4.594
    assert round(least_for_offsets(records) / MIB, 3) == 4.594
    assert round(sum(record.size for record in records) / MIB, 3) == 19.248


def test_mobilenet_v2_has_65_tensors_of_26_mib() -> None:
    """The numbers are those of the authors' article on TensorFlow Lite's memory."""
    records = mobilenet_v2()
    assert len(records) == 65
    assert round(sum(record.size for record in records) / MIB) == 26


def test_the_report_names_every_strategy(tmp_path: Path) -> None:
    (tmp_path / "T.8.csv").write_text("id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\n")
    report = run_placement_benchmark(tmp_path, time_limit_s=1)
    network = report["placement"]["inception_v3"]
    assert network["offsets"]["optimal"] == pytest.approx(network["bounds"]["offsets"])
    assert network["shared_objects"]["naive"] > network["shared_objects"]["greedy_by_size_improved"]
    assert report["minimalloc"]["T"]["optimal"] | {"seconds": 0} == {"bytes": 8, "fits": True, "seconds": 0}


def test_upper_is_the_first_moment_at_which_a_buffer_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "T.8.csv"
    path.write_text("id,lower,upper,size\na,3,5,4\n")
    assert read_instance(path) == ([TensorRecord(size=4, first=3, last=4, name="a")], 8)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("T.8.csv", "id,lower\na,3\n"),
        ("T.csv", "id,lower,upper,size\n"),
        ("T.8.csv", "id,lower,upper,size\na,3,x,4\n"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match="no allocation problem"):
        read_instance(tmp_path / name)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"NAME\.CAPACITY\.csv"):
        run_placement_benchmark(tmp_path, time_limit_s=1)
