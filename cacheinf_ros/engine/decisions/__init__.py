# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a model's outputs decide, what neighbouring frames agree on, and how often an answer is right."""

from cacheinf_ros.engine.decisions.box_decisions import BoxDecisions, SoftBoxes, class_overlaps
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.engine.decisions.score import FEWEST_DECISIONS, MOVING_ALLOWANCE, Loss, Score
from cacheinf_ros.engine.decisions.task import RADIUS, Task, consensus_of_all, score_all, score_at
from cacheinf_ros.engine.decisions.task_of_model import task_of_model

__all__ = [
    "FEWEST_DECISIONS", "MOVING_ALLOWANCE", "RADIUS", "BoxDecisions", "ClassMaps", "Loss", "Score", "SoftBoxes", "Task",
    "class_overlaps", "consensus_of_all", "score_all", "score_at", "task_of_model",
]  # fmt: skip
