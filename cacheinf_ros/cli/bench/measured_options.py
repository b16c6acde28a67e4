# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The options of commands that measure one model on one recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheinf_ros.cli.bench.bench_report import DEFAULT_SCENE, write_report
from cacheinf_ros.cli.options import JsonFile, ModelReference, Size, SourceReference, Threads, Weights
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig

if TYPE_CHECKING:
    from cacheinf_ros.graph import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """Options for the model, and the recording it runs on."""

    model: ModelReference = "scenenet"
    weights: Weights = None
    size: Size = None
    source: SourceReference = DEFAULT_SCENE


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOptions(RecordingOptions):
    """Options for a measurement: model, recording, number of threads, and where the figures go."""

    threads: Threads = EngineConfig().threads
    json_file: JsonFile = None

    def load(self) -> Model:
        """Load the model; raises :class:`ModelError` or :class:`ConfigError` where that fails.

        Where the recording is shown as voxels that the model does not take, it fails, too.
        """
        from cacheinf_ros.engine.frame_placement import check_voxels
        from cacheinf_ros.graph import load_model
        from cacheinf_ros.sources import voxel_grid_of

        model = load_model(self.model, weights=self.weights, input_size=parse_size(self.size))
        check_voxels(voxel_grid_of(self.source), model.card)
        return model

    def write(self, report: Mapping[str, Any], source: str | None = None) -> None:
        """Write a report with what it was measured on: the recording, or the ``source`` that replaced it."""
        from cacheinf_ros.sources import label_of

        write_report(self.json_file, {"source": source or label_of(self.source), **report})
