# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The texts of diagnostics about bounded mode: what computes its frames, what is lost, and what may be held."""

from __future__ import annotations

from cacheinf_ros.engine.dense_backends import DenseBackend
from cacheinf_ros.pipeline.answer_holder import LossReport
from cacheinf_ros.pipeline.holding import Holding
from cacheinf_ros.pipeline.lower_precision import LowerPrecision


def backend_text(best: DenseBackend, lower: LowerPrecision) -> str:
    """Describe what computes the frames between bursts.

    Args:
        best: the fastest float32 backend.
        lower: the backends of lower precision.
    """
    full = f"{best.name}, {best.milliseconds:.1f} ms"
    if lower.chosen is not None:
        chosen = f"{lower.chosen.name}, {lower.milliseconds:.1f} ms"
        return f"{chosen}, {lower.booked:.0%} of the promise booked for it; in bursts {full}"
    return full if lower.lookout is None else f"{full}; while nothing is seen {lower.lookout.name}"


def loss_text(report: LossReport, allowed: float, max_loss: float) -> str:
    """Describe the loss by held answers that a burst showed.

    Args:
        allowed: the part of the promise that the burst was judged by.
        max_loss: the whole promise, a part of which the engine or a lower precision may use up.
    """
    measured, uncertain = report.measured, report.uncertain
    asked = f"{max_loss:g} asked" if allowed == max_loss else f"{allowed:g} left for holding, of {max_loss:g} asked"
    return (
        f"{measured.whole:.3f} +- {uncertain.whole:.3f} "
        f"({measured.moving:.3f} +- {uncertain.moving:.3f} where things move) of {asked}"
    )


def limits_text(report: LossReport, holding: Holding, scale: float) -> str:
    """Describe how much may change until an answer is no longer held.

    Args:
        report: what the last burst showed.
        holding: the limits.
        scale: the factor from surprises.
    """
    limit = holding.limit
    if not report.tells:
        return f"nothing is held: {untold_text(report)}"
    if limit is None:
        return "nothing is held"
    return f"largest {limit.largest:.1f}, mean {limit.mean:.2f}, times {scale:.2f}"


def untold_text(report: LossReport) -> str:
    """Say why a burst tells nothing of losses."""
    return (
        f"outputs flicker so much that dense answers are right {report.dense_right:.0%} of the time, and losses mean "
        "nothing; where they are classes or boxes, a decoder in a model card says so (docs/models.md)"
    )
