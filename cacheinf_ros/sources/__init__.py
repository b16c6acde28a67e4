# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sources of frames: videos, bags, folders and built-in scenes."""

from cacheinf_ros.sources.compressed import decode_compressed
from cacheinf_ros.sources.encoding import decode_image
from cacheinf_ros.sources.folder import FolderSource
from cacheinf_ros.sources.frame import Frame, Source
from cacheinf_ros.sources.objects import KnowsObjects, TrueObject
from cacheinf_ros.sources.open import halves_of, label_of, open_source, place_of, value_range_of, voxel_grid_of
from cacheinf_ros.sources.picture_files import MOST_PIXELS, decode_picture
from cacheinf_ros.sources.picture_pairs import PicturePairs, side_by_side
from cacheinf_ros.sources.point_cloud import points_of
from cacheinf_ros.sources.scenes import OBJECT_LABELS, EncodedScene, Scene, SceneTruth
from cacheinf_ros.sources.value_range import ValueRange
from cacheinf_ros.sources.voxel_grid import VoxelGrid, parse_voxel_grid

__all__ = [
    "MOST_PIXELS", "OBJECT_LABELS", "EncodedScene", "FolderSource", "Frame", "KnowsObjects", "PicturePairs", "Scene",
    "SceneTruth", "Source", "TrueObject", "ValueRange", "VoxelGrid", "decode_compressed", "decode_image",
    "decode_picture", "halves_of", "label_of", "open_source", "parse_voxel_grid", "place_of", "points_of",
    "side_by_side", "value_range_of", "voxel_grid_of",
]  # fmt: skip

# A subpackage with an interface of its own.
__all__ += ["scenes"]
