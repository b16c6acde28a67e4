# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a model's outputs decide, what neighbouring frames agree on, and how often an answer is right."""

from cacheinf_ros.engine.decisions.box_decisions import BoxDecisions
from cacheinf_ros.engine.decisions.class_maps import ClassMaps, has_places
from cacheinf_ros.engine.decisions.judged_as import FEW_CHANNELS, JudgedAs, judged_as
from cacheinf_ros.engine.decisions.raw_values import Values
from cacheinf_ros.engine.decisions.score import FEWEST_DECISIONS, MOVING_ALLOWANCE, Loss, Score
from cacheinf_ros.engine.decisions.soft_boxes import LINK_IOU, REPORTED_WEIGHT, SEEN_SCORE, SoftBoxes, class_overlaps
from cacheinf_ros.engine.decisions.task import RADIUS, Task, consensus_of_all, score_all, score_at, tells
from cacheinf_ros.engine.decisions.task_of_model import task_of_model

__all__ = [
    "FEWEST_DECISIONS", "FEW_CHANNELS", "LINK_IOU", "MOVING_ALLOWANCE", "RADIUS", "REPORTED_WEIGHT", "SEEN_SCORE",
    "BoxDecisions", "ClassMaps", "JudgedAs", "Loss", "Score", "SoftBoxes", "Task", "Values", "class_overlaps",
    "consensus_of_all",
    "has_places", "judged_as", "score_all", "score_at", "task_of_model", "tells",
]  # fmt: skip
