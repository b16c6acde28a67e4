# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes from the output of a detector that moves and scales prior boxes (SSD, arXiv 1512.02325)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.probabilities import softmax
from cacheinf_ros.engine.decoders.suppress import Found, best_class, suppress
from cacheinf_ros.graph.decoder_configs import SsdBoxes

Size = tuple[int, int]


def decode_ssd(offsets: NDArray[Any], scores: NDArray[Any], decoder: SsdBoxes, input_size: Size) -> Found:
    """Move the priors, and keep the best of overlapping boxes.

    Args:
        offsets: float32 [1, n, 4]: the offset of the centre (x, y) in sides of the prior, then the logarithms of width
            and height over the prior's; each divided by its variance.
        scores: float32 [1, n, classes].
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the shapes do not fit each other or the priors.
    """
    priors = prior_boxes(decoder, input_size)
    if offsets.shape != (1, len(priors), 4) or scores.shape[:2] != (1, len(priors)):
        raise ValueError(
            f"an input of {input_size} has {len(priors)} priors; offsets are [1, priors, 4] and scores "
            f"[1, priors, classes], not {offsets.shape} and {scores.shape}"
        )
    best, classes = best_class(softmax(scores[0]) if decoder.softmax else scores[0], decoder.background)
    chosen = np.flatnonzero(best >= decoder.score_threshold)
    found = (_moved(priors[chosen], offsets[0, chosen].astype(np.float32), decoder), best[chosen], classes[chosen])
    return suppress(found, score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold)


def prior_boxes(decoder: SsdBoxes, input_size: Size) -> NDArray[np.float32]:
    """Return the priors, float32 [n, 4], (centre x, centre y, width, height) in pixels: by head, then cell, then size.

    The cells of a head divide the input evenly, also where its sides are no multiples of the stride.
    """
    return np.concatenate(
        [
            _grid(cells, sides, input_size)
            for cells, sides in zip(decoder.grids(input_size), decoder.min_boxes, strict=True)
        ]
    )


def _grid(cells: Size, sides: tuple[float, ...], input_size: Size) -> NDArray[np.float32]:
    priors = np.empty((*cells, len(sides), 4), np.float32)
    height, width = input_size
    priors[..., 0] = ((np.arange(cells[1]) + 0.5) * width / cells[1])[None, :, None]
    priors[..., 1] = ((np.arange(cells[0]) + 0.5) * height / cells[0])[:, None, None]
    # a prior that is larger than the image was cut to its size when such networks were trained
    priors[..., 2] = np.minimum(sides, width)
    priors[..., 3] = np.minimum(sides, height)
    return priors.reshape(-1, 4)


def _moved(priors: NDArray[np.float32], offsets: NDArray[np.float32], decoder: SsdBoxes) -> NDArray[np.float32]:
    """Return the boxes of moved priors, float32 [n, 4], (x, y, width, height) in pixels."""
    centres = priors[:, :2] + offsets[:, :2] * decoder.center_variance * priors[:, 2:]
    sizes = priors[:, 2:] * np.exp(offsets[:, 2:] * decoder.size_variance)
    return np.concatenate([centres - sizes / 2, sizes], axis=1).astype(np.float32)
