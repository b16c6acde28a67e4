# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compile a model once, then run frames with a cache of its feature maps."""

from cacheinf_ros.engine.bounded import (
    Audit,
    Calibration,
    calibrate,
    calibration_file,
    load_calibration,
    save_calibration,
)
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.decoders import Box, Decoded, KeyPoint, ScoredClass, Selection, decode
from cacheinf_ros.engine.engine import Engine
from cacheinf_ros.engine.engine_config import Cache, DensePrecision, EngineConfig, Precision
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Side
from cacheinf_ros.engine.partition.sharing import FrameStart, Outdated, PartitionWorker, Pixels, RemotePeer
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.result import EngineResult
from cacheinf_ros.matching import matching_for
from cacheinf_ros.mode import Mode

__all__ = [
    "Audit",
    "Box",
    "Cache",
    "Caching",
    "Calibration",
    "Decoded",
    "DensePrecision",
    "Engine",
    "EngineConfig",
    "EngineResult",
    "FrameStart",
    "KeyPoint",
    "Mode",
    "Outdated",
    "Partition",
    "PartitionSpace",
    "PartitionWorker",
    "Pixels",
    "Precision",
    "Preprocessor",
    "RemotePeer",
    "ScoredClass",
    "Selection",
    "Side",
    "calibrate",
    "calibration_file",
    "decode",
    "load_calibration",
    "matching_for",
    "save_calibration",
]  # fmt: skip
