# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compile a model once, then run frames with a cache of its feature maps."""

from cacheinf_ros.engine.arena_order import in_smallest_order, records_of
from cacheinf_ros.engine.bounded import (
    Audit,
    Calibration,
    calibrate,
    calibration_file,
    load_calibration,
    save_calibration,
)
from cacheinf_ros.engine.caching import EVERYTHING, Caching, droppable
from cacheinf_ros.engine.compile import chosen_caching
from cacheinf_ros.engine.counts import Counts
from cacheinf_ros.engine.decoders import Box, Decoded, KeyPoint, ScoredClass, Selection, decode
from cacheinf_ros.engine.engine import Engine, mode_of_maps
from cacheinf_ros.engine.engine_config import Cache, DensePrecision, EngineConfig, Precision
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.engine.layout import Layout, lay_out
from cacheinf_ros.engine.lifetimes import map_bytes
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Rows, Side
from cacheinf_ros.engine.partition.partition_worker import PartitionWorker
from cacheinf_ros.engine.partition.sharing import FrameStart, Outdated, Pixels, RemotePeer
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.result import EngineResult
from cacheinf_ros.matching import matching_for
from cacheinf_ros.mode import Mode

__all__ = [
    "EVERYTHING", "Audit", "Box", "Cache", "Caching", "Calibration", "Counts", "Decoded", "DensePrecision", "Engine",
    "EngineConfig", "EngineResult", "FrameStart", "KeyPoint", "Layout", "Mode", "Outdated", "Partition",
    "PartitionSpace", "PartitionWorker", "Patch", "Pixels", "Precision", "Preprocessor", "Program", "RemotePeer",
    "Rows", "ScoredClass", "Selection", "Side", "calibrate", "calibration_file", "chosen_caching", "decode",
    "droppable", "in_smallest_order", "kernel_library", "lay_out", "load_calibration", "map_bytes", "matching_for",
    "mode_of_maps", "records_of", "save_calibration",
]  # fmt: skip

# Subpackages with a public interface of their own.
__all__ += ["cost", "decisions", "decoders", "execution", "quantisation", "rematerialisation"]
# Modules that judge, move or replace an engine's outputs; running an engine does not need them.
__all__ += ["accuracy", "dense_backends", "following", "int8_content", "mean_iou", "onnx_content"]
# Which part of a frame answers are about.
__all__ += ["frame_placement"]
