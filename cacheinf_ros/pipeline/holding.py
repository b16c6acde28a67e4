# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When the last answer still stands: limits on how far the picture may change, found on bursts of dense frames."""

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

_AFTER_ONE, _LATER = Loss(whole=1.5, moving=1.5), Loss(whole=1.0, moving=0.5)
"""Standard errors that are added to a loss before it counts as within the promise, after one burst and after several.

A burst shows few decisions where things move, and frames in a row are alike: a first one deceives easily.
"""
_NEAR = 2  # frames
_STEPS = 8  # limits of each kind that are tried
_TWO_SIDED_95 = 1.96  # standard errors of a normal distribution
Table = NDArray[np.float64]
_WHOLE, _MOVING = (0, 1), (2, 3)  # columns of right and total decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How limits did on frames that were computed densely.

    Attributes:
        limit: an answer is held while the change since its frame is within it; None: never.
        loss: what that cost.
        computed: share of the frames that would have been computed.
    """

    limit: Change | None
    loss: Loss
    computed: float


NEVER = Holding(limit=None, loss=Loss(whole=0.0, moving=0.0), computed=1.0)


def best_holding(bursts: Sequence[Burst[Any]], max_loss: float) -> Holding:
    """The limits that compute the fewest frames while the loss, with its standard error, is within the promise.

    No limit goes beyond the changes that the frames showed: what is larger than anything that was tried is computed.
    """
    if not any(burst.changes(LONGEST) for burst in bursts):
        return NEVER
    caution = _AFTER_ONE if len(bursts) == 1 else _LATER
    largest, mean = (_steps(bursts, figure) for figure in (lambda c: c.largest, lambda c: c.mean))
    limits = np.array([(a, b) for a in largest for b in mean])
    ages = [_ages(burst, limits) for burst in bursts]
    computed = np.mean(np.concatenate(ages) == 0, axis=0)
    tables = [burst.score_table() for burst in bursts]
    dense = np.concatenate([table[:, 0] for table in tables])
    ours = np.concatenate(
        [table[np.arange(len(table))[:, None], age] for table, age in zip(tables, ages, strict=True)]
    )  # [frames, limits, 4]
    ours = ours.transpose(1, 0, 2)
    whole, moving = _loss(ours, dense, _WHOLE), _loss(ours, dense, _MOVING)
    is_kept = (whole + caution.whole * _standard_error(ours, dense, _WHOLE) <= max_loss) & (
        moving + caution.moving * _standard_error(ours, dense, _MOVING) <= MOVING_ALLOWANCE * max_loss
    )
    best = int(np.argmin(np.where(is_kept, computed, 1.0)))
    if not is_kept[best] or computed[best] >= 1:
        return NEVER
    return Holding(
        limit=Change(largest=float(limits[best, 0]), mean=float(limits[best, 1])),
        loss=Loss(whole=float(whole[best]), moving=float(moving[best])),
        computed=float(computed[best]),
    )


def uncertainty(ours: Sequence[Score], dense: Sequence[Score]) -> Loss:
    """Half of the width of the loss's 95 % confidence interval, from how it differs from frame to frame.

    That of a normal distribution, as if frames were independent: they are alike, so it is rather too narrow.
    """
    first, second = _table(ours), _table(dense)
    whole, moving = (_TWO_SIDED_95 * float(_standard_error(first, second, columns)) for columns in (_WHOLE, _MOVING))
    return Loss(whole=whole, moving=moving)


def _ages(burst: Burst[Any], limits: NDArray[np.float64]) -> NDArray[np.int64]:
    """int64 [frames, limits]: how many frames old the answer is that stands with each of the limits."""
    stands = np.all(burst.change_table()[:, :, None, :] <= limits, axis=-1)  # [frames, ages, limits]
    ages = np.zeros((len(burst), len(limits)), np.int64)
    everyone = np.arange(len(limits))
    for now in range(1, len(burst)):
        older = ages[now - 1] + 1
        ages[now] = np.where((older <= LONGEST) & stands[now, np.minimum(older, LONGEST), everyone], older, 0)
    return ages


def _table(scores: Sequence[Score]) -> NDArray[np.float64]:
    """float64 [frames, 4]: right, total, and both where things move."""
    return np.array([(each.right, each.total, each.moving_right, each.moving_total) for each in scores]).reshape(-1, 4)


def _loss(ours: Table, dense: Table, columns: tuple[int, int]) -> Table:
    """[...]: how much smaller the share of right decisions is than that of dense execution, [frames, 4].

    Where nothing moves in one of both, nothing is lost there; where there is nothing to decide at all, all is right.
    """
    right, total = (ours[..., column].sum(-1) for column in columns)
    dense_right, dense_total = (float(dense[:, column].sum()) for column in columns)
    share = np.divide(right, total, out=np.ones_like(right), where=total > 0)
    lost = (dense_right / dense_total if dense_total else 1.0) - share
    return np.where((total > 0) & (dense_total > 0), lost, 0.0) if columns == _MOVING else lost


def _standard_error(ours: Table, dense: Table, columns: tuple[int, int]) -> Table:
    """[...]: of the loss."""
    right, total = columns
    return ratio_error(dense[:, right] - ours[..., right], dense[:, total])


def _steps(bursts: Sequence[Burst[Any]], figure: Callable[[Change], float]) -> list[float]:
    """Candidates for a limit: evenly by rank among the changes to the next frames, and among those to later ones."""
    near, far = ([figure(c) for burst in bursts for c in burst.changes(reach)] for reach in (_NEAR, LONGEST))
    ranks = np.linspace(0.02, 0.98, _STEPS)
    return sorted({*np.quantile(near, ranks).tolist(), *np.quantile(far, ranks).tolist()})
