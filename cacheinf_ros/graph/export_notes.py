# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Read what exporters add to the graph in an ONNX file: ultralytics' task, class names and key points."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportNotes:
    """What an ONNX file says of itself.

    Attributes:
        task: detect, segment, pose, ...; empty: the file does not say.
        labels: names of the classes; empty: the file does not say.
        key_point_shape: number of key points of an object, and of values of each; None: the file does not say.
    """

    task: str = ""
    labels: tuple[str, ...] = ()
    key_point_shape: tuple[int, int] | None = None


def export_notes(path: Path) -> ExportNotes:
    """Read the notes in a file; they are empty where it is no ONNX file or they make no sense."""
    if path.suffix.lower() != ".onnx" or not path.is_file():
        return ExportNotes()
    import onnx  # here: other models need not wait for it

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # protobuf's errors and the file system's; whoever loads the model tells the user
        return ExportNotes()
    notes = {entry.key: entry.value for entry in model.metadata_props}
    return ExportNotes(
        task=notes.get("task", ""),
        labels=_labels(_literal(notes.get("names"))),
        key_point_shape=_pair(_literal(notes.get("kpt_shape"))),
    )


def _literal(text: str | None) -> Any:
    try:
        return ast.literal_eval(text) if text else None
    except (ValueError, SyntaxError):
        return None


def _labels(names: Any) -> tuple[str, ...]:
    if isinstance(names, dict) and sorted(names) == list(range(len(names))):
        names = [names[i] for i in range(len(names))]
    return tuple(map(str, names)) if isinstance(names, (list, tuple)) else ()


def _pair(shape: Any) -> tuple[int, int] | None:
    is_pair = isinstance(shape, (list, tuple)) and len(shape) == 2 and all(isinstance(n, int) for n in shape)
    return (shape[0], shape[1]) if is_pair and shape[1] in (2, 3) and shape[0] > 0 else None
