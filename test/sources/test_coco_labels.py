# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes that are labelled in a folder's pictures, in COCO's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import FolderSource, TrueObject


def labels(*annotations: Any, **changes: Any) -> dict[str, Any]:
    """Return the content of a file for the pictures 0.png and 1.png with the classes cup and dog."""
    return {
        "images": [{"id": 7, "file_name": "images\\default/0.png", "width": 6}, {"id": 8, "file_name": "1.png"}],
        "categories": [{"id": 3, "name": "cup", "supercategory": ""}, {"id": 5, "name": "dog"}],
        "annotations": list(annotations),
        "info": {"version": "1.0"},
    } | changes


def box(picture: int, category: int, *bbox: float, **other: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": picture, "category_id": category, "bbox": bbox, "segmentation": [[0, 0]], **other}


def folder(path: Path, *files: Any, pictures: int = 3) -> FolderSource:
    for number in range(pictures):
        cv2.imwrite(str(path / f"{number}.png"), np.full((4, 6, 3), number, np.uint8))
    for number, content in enumerate(files):
        (path / f"{number}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return FolderSource(path)


def test_boxes_belong_to_the_picture_of_their_name(tmp_path: Path) -> None:
    file = labels(box(7, 5, 1, 2, 3.5, 4), box(7, 3, 0, 0, 1, 1), box(7, 3, 0, 0, 6, 4, iscrowd=1))
    source = folder(tmp_path, file, {"width": 640})
    assert source.classes() == ("cup", "dog")
    assert source.objects(0) == (
        TrueObject(label="dog", x=1, y=2, width=3.5, height=4),
        TrueObject(label="cup", x=0, y=0, width=1, height=1),
    )
    assert source.objects(1) == ()
    assert source.objects(2) is None


@given(
    st.lists(st.tuples(st.sampled_from([7, 8]), st.sampled_from([3, 5]), *[st.floats(0, 1e6)] * 4), max_size=9),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
def test_every_box_is_found_once(tmp_path: Path, boxes: list[tuple[Any, ...]]) -> None:
    source = folder(tmp_path, labels(*(box(*each) for each in boxes)))
    found = [
        (picture, {"cup": 3, "dog": 5}[each.label], each.x, each.y, each.width, each.height)
        for picture, index in ((7, 0), (8, 1))
        for each in source.objects(index) or ()
    ]
    assert sorted(found) == sorted(boxes)


def test_other_json_files_are_left_alone(tmp_path: Path) -> None:
    source = folder(tmp_path, '{"damaged": ', '["annotations"]')
    assert source.classes() == () and source.objects(0) is None


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (['{"annotations": ['], "0.json: not a readable JSON file"),
        (['{"annotations": ' + "[" * 100_000], "0.json: not a readable JSON file"),
        ([labels(), labels()], "0.json, 1.json all have labels"),
        ([labels(box(7, 3, 1, 2, -3, 4))], r"annotations\.0\.bbox\.2 = -3"),
        ([labels(box(7, 3, float("nan"), 2, 3, 4))], r"annotations\.0\.bbox\.0 = nan"),
        ([labels(box(7, 3, 1, 2, 3))], r"annotations\.0\.bbox\.3.*COCO's format"),
        ([labels({"image_id": 7, "category_id": 3})], r"annotations\.0\.bbox"),
        ([labels(categories=[])], "categories"),
        ([labels(box(9, 3, 1, 2, 3, 4))], "image 9 and category 3"),
        ([labels(box(7, 4, 1, 2, 3, 4))], "image 7 and category 4"),
        ([labels(images=[{"id": 1, "file_name": "a/0.png"}, {"id": 2, "file_name": "b/0.png"}])], "same id or name"),
        ([labels(images=[{"id": 1, "file_name": "0.png"}, {"id": 1, "file_name": "1.png"}])], "same id or name"),
    ],
)  # fmt: skip
def test_damaged_labels_are_refused_when_they_are_asked_for(tmp_path: Path, files: list[Any], complaint: str) -> None:
    source = folder(tmp_path, *files)
    assert len(list(source)) == 3
    with pytest.raises(SourceError, match=complaint):
        source.classes()
