# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Conversions between what a robot's models have answered and the message that tells other robots."""

from __future__ import annotations

import re

from cacheinf_ros.catalog.specialists.other_robots import ClassReport
from cacheinf_ros.errors import MessageError, quoted
from cacheinf_ros.msg import ClassCounts

_MOST_CLASSES, _MOST_ANSWERS, _MOST_CHARACTERS = 1000, 10_000, 64  # a camera shows 900 frames in 30 s
_SHA256 = re.compile(r"[0-9a-f]{64}")


def report_message(report: ClassReport) -> ClassCounts:
    """Convert a report to a message."""
    counts = report.counts
    return ClassCounts(robot=report.robot, model=report.model, classes=list(counts), counts=list(counts.values()))


def report_from(message: ClassCounts) -> ClassReport:
    """Convert a message to a report; raises :class:`MessageError` where it contradicts itself or is too long."""
    said = f"class counts of {quoted(message.robot)}"
    if not 0 < len(message.robot) <= _MOST_CHARACTERS or not _SHA256.fullmatch(message.model):
        raise MessageError(f"{said}: a name of 1 to {_MOST_CHARACTERS} characters and a SHA-256 are needed")
    if len(message.classes) != len(message.counts) or len(message.classes) > _MOST_CLASSES:
        raise MessageError(
            f"{said}: {len(message.classes)} classes, at most {_MOST_CLASSES}, {len(message.counts)} counts"
        )
    counts = dict(zip(message.classes, message.counts, strict=True))
    if len(counts) < len(message.classes) or not all(counts.values()) or sum(counts.values()) > _MOST_ANSWERS:
        raise MessageError(f"{said}: a class twice, none of a class, or more than {_MOST_ANSWERS} answers")
    return ClassReport(robot=message.robot, model=message.model, counts=counts)
