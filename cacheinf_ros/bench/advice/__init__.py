# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Advises how to run a user's own model on the user's own recording, and says why."""

from cacheinf_ros.bench.advice.advice import Advice, Measured, advise
from cacheinf_ros.bench.advice.advice_page import advice_page, points_of
from cacheinf_ros.bench.advice.choices import SKIPS, choices_for, own_settings
from cacheinf_ros.bench.advice.parameters_file import parameters_yaml
from cacheinf_ros.bench.advice.target import Target

__all__ = [
    "SKIPS",
    "Advice",
    "Measured",
    "Target",
    "advice_page",
    "advise",
    "choices_for",
    "own_settings",
    "parameters_yaml",
    "points_of",
]
