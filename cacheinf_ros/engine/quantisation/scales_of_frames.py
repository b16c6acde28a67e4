# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds scales from the frames that a node sees, in a process beside it, and keeps them for its next start."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quantisation import quantise_program
from cacheinf_ros.engine.quantisation.scales import Maker, keep_scales, scales_of
from cacheinf_ros.engine.quantising_process import quantised_by
from cacheinf_ros.graph import Model, Scales, encode_graph


def scales_of_frames(model: Model, images: Sequence[NDArray[np.uint8]], stopping: threading.Event) -> Scales:
    """Find a model's scales in a process of the lowest priority, which takes a minute or more, and keep them.

    Args:
        model: the model.
        images: uint8 [height, width, 3], BGR. They should show what matters, as in :func:`.quantise`.
        stopping: an event to set when the scales are no longer needed.

    Raises:
        ModelError: the model cannot be handed to another process.
        QuantisationError: quantising failed, or was stopped.
    """
    resize = Preprocessor(model.card).resize
    files: dict[str, bytes | NDArray[np.uint8]] = {
        quantise_program.GRAPH: encode_graph(model.graph),
        quantise_program.CARD: model.card.model_dump_json().encode(),
        quantise_program.FRAMES: np.stack([resize(image) for image in images]),
    }
    program = Path(quantise_program.__file__)
    scales = scales_of(quantised_by(program, files, quantise_program.SCALES, stopping))
    keep_scales(model, scales, Maker.NODE)
    return scales
