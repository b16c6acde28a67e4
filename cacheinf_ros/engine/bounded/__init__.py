# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode: which changes may be held back so that the error stays below a limit, and the check that it does."""

from cacheinf_ros.engine.bounded.audit import Audit, Auditor
from cacheinf_ros.engine.bounded.calibration import Calibration, calibrate
from cacheinf_ros.engine.bounded.store import calibration_file, load_calibration, save_calibration

__all__ = [
    "Audit", "Auditor", "Calibration", "calibrate", "calibration_file", "load_calibration", "save_calibration",
]  # fmt: skip
