# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Built-in scenes: a virtual camera over real photographs, with ground truth for motion, change and objects."""

from cacheinf_ros.sources.scenes.encoded import EncodedScene
from cacheinf_ros.sources.scenes.photographs import PHOTOGRAPHS, load_photograph, load_photographs
from cacheinf_ros.sources.scenes.scene import Scene
from cacheinf_ros.sources.scenes.scene_config import Gallery, MotionPreset, SceneConfig, parse_scene
from cacheinf_ros.sources.scenes.sprites import OBJECT_LABELS
from cacheinf_ros.sources.scenes.truth import SceneObject, SceneTruth

__all__ = [
    "OBJECT_LABELS", "PHOTOGRAPHS", "EncodedScene", "Gallery", "MotionPreset", "Scene", "SceneConfig", "SceneObject",
    "SceneTruth", "load_photograph", "load_photographs", "parse_scene",
]  # fmt: skip
