# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides when the last answer still stands: limits on how far the picture may change, fitted to dense bursts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE, Loss, Score
from cacheinf_ros.pipeline.burst import LONGEST, Burst
from cacheinf_ros.pipeline.picture_change import Change
from cacheinf_ros.pipeline.ratio_error import ratio_error

_AFTER_ONE, _AFTER_MANY = Loss(whole=3.0, moving=3.0), Loss(whole=1.0, moving=0.5)
"""How many standard errors are added to a loss before it counts as within the promise, after one burst and after many.

Consecutive frames are alike, and few of their decisions lie where things move: a single burst misleads easily.
"""
_NEAR = 2  # frames ahead that count as near
_STEPS = 8  # candidates for each limit that are tried
_TWO_SIDED_95 = 1.96  # standard errors of a normal distribution
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Limits for holding answers, and how they did on frames that were computed densely.

    Attributes:
        limit: an answer is held while the change since its frame is within it; None: never.
        loss: the loss of holding answers within this limit.
        computed: the share of frames that would have been computed.
    """

    limit: Change | None
    loss: Loss
    computed: float


NEVER = Holding(limit=None, loss=Loss(whole=0.0, moving=0.0), computed=1.0)


def best_holding(bursts: Sequence[Burst[Any]], max_loss: float) -> Holding:
    """Find the limits that compute the fewest frames while the loss, with its standard error, keeps the promise.

    No limit goes beyond the changes that the frames showed: a larger change than any that was tried is computed.
    """
    if not any(burst.changes(LONGEST) for burst in bursts):
        return NEVER
    caution = _caution(len(bursts))
    largest, mean = (_steps(bursts, figure) for figure in (lambda c: c.largest, lambda c: c.mean))
    ages = _ages(bursts, largest, mean)
    computed = np.mean(ages == 0, axis=0)
    whole, moving = _losses(np.concatenate([burst.score_table() for burst in bursts]), ages)
    is_kept = (whole.loss + caution.whole * whole.error <= max_loss) & (
        moving.loss + caution.moving * moving.error <= MOVING_ALLOWANCE * max_loss
    )
    best = int(np.argmin(np.where(is_kept, computed, 1.0)))
    if not is_kept[best] or computed[best] >= 1:
        return NEVER
    first, second = divmod(best, len(mean))
    return Holding(
        limit=Change(largest=float(largest[first]), mean=float(mean[second])),
        loss=Loss(whole=float(whole.loss[best]), moving=float(moving.loss[best])),
        computed=float(computed[best]),
    )


def uncertainty(ours: Sequence[Score], dense: Sequence[Score]) -> Loss:
    """Compute half the width of the loss's 95 % confidence interval, from the differences between frames.

    It assumes a normal distribution and independent frames; as frames are alike, the interval is rather too narrow.
    """
    missed = np.array([(d.right - o.right, d.moving_right - o.moving_right) for o, d in zip(ours, dense, strict=True)])
    totals = np.array([(score.total, score.moving_total) for score in dense])
    whole, moving = (_TWO_SIDED_95 * float(ratio_error(missed[:, part], totals[:, part])) for part in (0, 1))
    return Loss(whole=whole, moving=moving)


def _caution(bursts: int) -> Loss:
    """Return how many standard errors are added to a loss that so many bursts show."""
    first, many = _AFTER_ONE, _AFTER_MANY
    return Loss(
        whole=many.whole + (first.whole - many.whole) / bursts,
        moving=many.moving + (first.moving - many.moving) / bursts,
    )


def _ages(bursts: Sequence[Burst[Any]], largest: Table, mean: Table) -> NDArray[np.int64]:
    """Return int64 [frames of all bursts, pairs of limits]: the age in frames of the answer that stands.

    The second limit of a pair varies fastest. All bursts are processed at once, because a frame waits for this.
    """
    lengths = [len(burst) for burst in bursts]
    changes = np.full((max(lengths), len(bursts), LONGEST + 1, 2), np.inf)
    for index, burst in enumerate(bursts):
        changes[: lengths[index], index] = burst.change_table()
    small, few = changes[..., :1] <= largest, changes[..., 1:] <= mean  # never at age 0
    stands = (small[..., :, None] & few[..., None, :]).reshape(*small.shape[:-1], -1)
    ages = np.zeros((len(changes), len(bursts), stands.shape[-1]), np.int64)
    for now in range(1, len(changes)):
        older = ages[now - 1] + 1
        older[older > LONGEST] = 0
        ages[now] = older * np.take_along_axis(stands[now], older[:, None], axis=1)[:, 0]
    return np.concatenate([ages[:length, index] for index, length in enumerate(lengths)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Losses:
    """The losses of policies and their standard errors, both float64 [policies]."""

    loss: Table
    error: Table


def _losses(scores: Table, ages: NDArray[np.int64]) -> tuple[_Losses, _Losses]:
    """Compute the losses of policies, whole and where things move.

    Args:
        scores: float64 [frames, ages, 4]: right, total, and both where things move, by age of the answer.
        ages: int64 [frames, policies]: the age of each policy's answer.
    """
    right, total = scores[..., ::2], scores[..., 1::2]
    missed = right[:, :1] - right
    figures = np.concatenate([right, total, missed**2, missed * total[:, :1]], axis=-1)  # [frames, ages, 4 x 2]
    rows = ages + scores.shape[1] * np.arange(len(ages))[:, None]
    sums = np.take(figures.reshape(-1, figures.shape[-1]), rows, axis=0).sum(0).T  # [4 x 2, policies]
    whole = _losses_of(sums[::2], right[:, 0, 0], total[:, 0, 0])
    moving = _losses_of(sums[1::2], right[:, 0, 1], total[:, 0, 1])
    something_moves = (sums[3] > 0) & bool(total[:, 0, 1].any())  # if not, nothing is lost there
    return whole, _Losses(loss=np.where(something_moves, moving.loss, 0.0), error=moving.error)


def _losses_of(sums: Table, dense_right: Table, dense_total: Table) -> _Losses:
    """Compute the losses of policies; where there is nothing to decide, all is right.

    Args:
        sums: float64 [4, policies], over frames: what is right, all there is to decide, the square of what was missed,
            and what was missed times what there was to decide.
        dense_right, dense_total: right and total of dense execution, [frames].
    """
    right, total, squares, products = sums
    share = np.divide(right, total, out=np.ones_like(right), where=total > 0)
    everything = float(dense_total.sum())
    if not everything:
        return _Losses(loss=1.0 - share, error=np.zeros_like(share))
    ratio = (dense_right.sum() - right) / everything
    variance = squares - 2 * ratio * products + ratio**2 * np.square(dense_total).sum()
    return _Losses(loss=dense_right.sum() / everything - share, error=np.sqrt(np.maximum(variance, 0.0)) / everything)


def _steps(bursts: Sequence[Burst[Any]], figure: Callable[[Change], float]) -> Table:
    """Choose candidates for a limit: evenly by rank among the changes to near frames, and to those further ahead."""
    near, far = ([figure(c) for burst in bursts for c in burst.changes(reach)] for reach in (_NEAR, LONGEST))
    ranks = np.linspace(0.02, 0.98, _STEPS)
    return np.unique([*np.quantile(near, ranks), *np.quantile(far, ranks)])
