# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes that somebody marked in a folder's pictures, from a file in COCO's format.

CVAT, Label Studio, Roboflow and FiftyOne export it: https://cocodataset.org/#format-data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from pydantic import ConfigDict, Field, NonNegativeFloat

from cacheinf_ros.config import Config
from cacheinf_ros.errors import ConfigError, SourceError, shortened
from cacheinf_ros.sources.objects import TrueObject

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoLabels:
    """The boxes of a folder's pictures.

    Attributes:
        objects: the objects in each picture that was looked at, by the name of its file.
        classes: the names of the classes that were looked for, in the file's order.
    """

    objects: Mapping[str, tuple[TrueObject, ...]]
    classes: tuple[str, ...]


class _Part(Config):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Picture(_Part):
    id: int
    file_name: str


class _Category(_Part):
    id: int
    name: str


class _Annotation(_Part):
    image_id: int
    category_id: int
    bbox: tuple[float, float, NonNegativeFloat, NonNegativeFloat]
    iscrowd: int = 0


class _File(_Part):
    images: list[_Picture]
    categories: list[_Category] = Field(min_length=1)
    annotations: list[_Annotation]


def read_coco_labels(folder: Path) -> CocoLabels | None:
    """Read the labels that lie beside a folder's pictures, in any JSON file that has "annotations".

    Pictures are found by the names of their files alone, as exports differ in the folders that they write before
    them. Areas marked as crowds are no objects.

    Returns:
        None where no file has labels.

    Raises:
        SourceError: a JSON file is damaged, two have labels, or one is not as COCO's are.
    """
    found = {path: content for path in sorted(folder.iterdir()) if (content := _annotated(path)) is not None}
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise SourceError(f"{folder}: {names} all have labels of pictures; leave one of them in the folder")
    if not found:
        return None
    ((path, content),) = found.items()
    try:
        file = _File.checked(**content)
    except ConfigError as error:
        raise SourceError(f"{path}: {shortened(str(error))}; export the labels in COCO's format, as boxes") from None
    return _labels(path, file)


def _annotated(path: Path) -> dict[str, Any] | None:
    """Return what a JSON file has, if that is annotations."""
    if path.suffix.lower() != _SUFFIX:
        return None
    try:
        content = path.read_bytes()
        found = json.loads(content) if b'"annotations"' in content else None
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not a readable JSON file ({error}); repair it, or move it elsewhere") from None
    return found if isinstance(found, dict) and "annotations" in found else None


def _labels(path: Path, file: _File) -> CocoLabels:
    names = {each.id: each.name for each in file.categories}
    pictures = {each.id: PureWindowsPath(each.file_name).name for each in file.images}  # splits at / and \
    objects: dict[str, list[TrueObject]] = {name: [] for name in pictures.values()}
    if len(objects) < len(file.images):
        raise SourceError(f"{path}: pictures have the same id or name; give each a name of its own")
    for each in file.annotations:
        if each.image_id not in pictures or each.category_id not in names:
            raise SourceError(
                f"{path}: an annotation names image {each.image_id} and category {each.category_id}, "
                "of which the file has not both; export the labels anew"
            )
        if not each.iscrowd:
            x, y, width, height = each.bbox
            objects[pictures[each.image_id]].append(
                TrueObject(label=names[each.category_id], x=x, y=y, width=width, height=height)
            )
    return CocoLabels(
        objects={name: tuple(found) for name, found in objects.items()}, classes=tuple(dict.fromkeys(names.values()))
    )
