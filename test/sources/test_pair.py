# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two recordings are read as one whose frames show both side by side."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import halves_of, open_source, place_of, value_range_of


def pictures(folder: Path, levels: list[int], size: tuple[int, int] = (8, 12), dtype: type = np.uint8) -> Path:
    folder.mkdir()
    for number, level in enumerate(levels):
        cv2.imwrite(str(folder / f"{number}.png"), np.full(size, level, dtype))
    return folder


def test_two_folders(tmp_path: Path) -> None:
    colours = pictures(tmp_path / "colours", [10, 20, 30])
    depths = pictures(tmp_path / "depths", [500, 1000, 2000], (4, 6), np.uint16)
    source = open_source(f"{colours} + {depths}?values=0..2000")
    frames = list(source)
    assert [frame.image.shape for frame in frames] == [(8, 24, 3)] * 3
    assert [(frame.image[0, 0, 0], frame.image[0, -1, 0]) for frame in frames] == [(10, 64), (20, 128), (30, 255)]
    assert [frame.index for frame in frames] == [0, 1, 2] and frames[2].stamp_ns == round(2e9 / 30)
    assert (source.name, source.length) == ("colours + depths", 3)
    assert [frame.index for frame in source] == [0, 1, 2]  # once more, from the start


def test_raw_values_of_the_left_source_alone(tmp_path: Path) -> None:
    depths = pictures(tmp_path / "depths", [500], dtype=np.uint16)
    colours = pictures(tmp_path / "colours", [10])
    reference = f"{depths}?values=0..1000 + {colours}"
    (frame,) = open_source(reference)
    assert (frame.image[0, 0, 0], frame.image[0, -1, 0]) == (128, 10)
    assert halves_of(reference) == (f"{depths}?values=0..1000", str(colours))


def test_what_has_no_partner_is_left_out(tmp_path: Path) -> None:
    left, right = pictures(tmp_path / "left", [1, 2, 3, 4]), pictures(tmp_path / "right", [5, 6])
    assert [frame.image[0, 0, 0] for frame in open_source(f"{left} + {right}")] == [1, 2]


def test_a_folder_of_such_a_name_is_itself(tmp_path: Path) -> None:
    both = pictures(tmp_path / "a + b", [1])
    assert [frame.image.shape for frame in open_source(str(both))] == [(8, 12, 3)]
    assert place_of(str(both)) == str(both)


def test_places_and_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of("a + b:/c") == f"{tmp_path / 'a'} + {tmp_path / 'b'}:/c"
    assert value_range_of("a + b?values=0..5") is None  # both are read in 8 bits
    assert value_range_of("b?values=0..5") is not None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("scene:fixed + scene:fixed + scene:pan", "give two sources with a plus between them"),
        ("left.mp4 + ", "give two sources"),
        (f"{'a' * 300} + b.mp4", "File name too long"),
        ("scene:fixed + nowhere.mp4", "nowhere.mp4: no such file or folder.*two with ' \\+ ' between them"),
    ],
)
def test_what_cannot_be_read_is_named(reference: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        open_source(reference)
