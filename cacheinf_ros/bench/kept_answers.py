# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stores what dense engines answered before a measurement was interrupted: one file per frame in a folder."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine.decisions import SoftBoxes, Values
from cacheinf_ros.graph import Model, graph_hash

_FORMAT = 4
_VARIATIONS = "variations"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptAnswer:
    """What an engine decided on a frame, and how many milliseconds it took."""

    decision: Any
    took_ms: float


class KeptAnswers:
    """Stored answers of engines without a memory: these need not be computed again where a measurement goes on."""

    def __init__(self, folder: Path, model: Model, images: Sequence[NDArray[np.uint8]], settings: str) -> None:
        """Open the answers for this model, these frames and these settings; others in the folder are never mixed in.

        Args:
            settings: everything else that answers and times depend on.
        """
        digest = hashlib.sha256(f"{_FORMAT} {graph_hash(model.graph)} {model.card!r} {settings}".encode())
        for image in images:
            digest.update(repr(image.shape).encode())
            digest.update(np.ascontiguousarray(image).data)
        self._folder = folder / digest.hexdigest()[:16]

    def read(self, index: int) -> Mapping[str, KeptAnswer]:
        """Return the answers to a frame, by engine; empty where there are none."""
        return self._file(index).read(_parse) or {}

    def write(self, index: int, answers: Mapping[str, KeptAnswer]) -> None:
        """Store the answers to a frame."""
        arrays: dict[str, Any] = {}
        described = {}
        for number, (name, answer) in enumerate(answers.items()):
            parts = _parts(answer.decision)
            described[name] = {"took_ms": answer.took_ms, "kind": _kind(answer.decision), "parts": list(parts)}
            arrays |= {f"{number}_{part}": value for part, value in parts.items()}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, described=np.array(json.dumps(described)), **arrays)
        self._file(index).write(buffer.getvalue())

    def forget(self) -> None:
        """Remove all stored answers, because the measurement is complete."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # the folder may hold answers of other measurements
            self._folder.parent.rmdir()

    def _file(self, index: int) -> KeptFile:
        return KeptFile(path=self._folder / f"{index:06d}.npz", what="answers to a frame", remedy="computing")


def _kind(decision: Any) -> str:
    return "boxes" if isinstance(decision, SoftBoxes) else "values" if isinstance(decision, Values) else "array"


def _parts(decision: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a decision by name; outputs are called by their numbers."""
    if isinstance(decision, SoftBoxes):
        named = ((each.name, getattr(decision, each.name)) for each in fields(SoftBoxes))
        return {name: value for name, value in named if value is not None}
    if isinstance(decision, Values):
        return {_VARIATIONS: np.array(decision.variations), **{str(i): v for i, v in enumerate(decision.outputs)}}
    return {"0": decision}


def _parse(content: memoryview) -> dict[str, KeptAnswer]:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        described = json.loads(str(stored["described"]))
        found = {}
        for number, (name, each) in enumerate(described.items()):
            parts = {part: stored[f"{number}_{part}"] for part in each["parts"]}
            decision: Any
            if each["kind"] == "boxes":
                decision = SoftBoxes(**parts)
            elif each["kind"] == "values":
                variations = tuple(map(float, parts.pop(_VARIATIONS)))
                decision = Values(outputs=tuple(parts.values()), variations=variations)
            else:
                (decision,) = parts.values()
            found[name] = KeptAnswer(decision=decision, took_ms=float(each["took_ms"]))
        return found
