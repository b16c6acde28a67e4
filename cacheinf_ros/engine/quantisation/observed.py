# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Observes the values of a model's tensors on a user's frames, computed in float32."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.backends import Backend
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import Graph, Model

Image = NDArray[np.uint8]
_SAMPLES = 1 << 13  # values of a tensor per frame


class DenseRuns:
    """Computes a graph of a model completely for every frame, without caching."""

    def __init__(self, model: Model, graph: Graph, backend: Backend) -> None:
        self.graph = graph
        self.program = Program(graph, backend)
        self._preprocessor = Preprocessor(model.card)
        self._input = backend.input(self._preprocessor, self.program.input)
        self._input.touch_all()

    def run(self, images: Sequence[Image]) -> Iterator[dict[str, torch.Tensor]]:
        """Yield each frame's outputs, valid until the next; the program's maps hold everything else."""
        for image in images:
            self._input.write(self._preprocessor.resize(image), self.program.changed_input, everything=True)
            yield self.program.execute(refresh=True)


class Observed:
    """Collects samples of a tensor's values, their range, and the mean of each channel.

    Attributes:
        low, high: the smallest and the largest value, where 0 always counts as one.
        is_finite: whether no value was infinite or NaN.
    """

    def __init__(self, channels: int) -> None:
        self.low = self.high = 0.0  # levels must always represent zero
        self.is_finite = True
        self._samples: list[torch.Tensor] = []
        self._sum = torch.zeros(channels, dtype=torch.float64)
        self._frames = 0

    def add(self, pixels: torch.Tensor, generator: torch.Generator) -> None:
        """Add the values of a frame; ``pixels``: float32 [pixels, channels]."""
        low, high = float(pixels.min()), float(pixels.max())  # NaN where any value is
        self.is_finite &= math.isfinite(low) and math.isfinite(high)
        self.low, self.high = min(self.low, low), max(self.high, high)
        rows = max(1, _SAMPLES // pixels.shape[1])
        chosen = pixels if len(pixels) <= rows else pixels[torch.randint(len(pixels), (rows,), generator=generator)]
        self._samples.append(chosen.flatten().clone())
        self._sum += pixels.mean(0, dtype=torch.float64)
        self._frames += 1

    @property
    def samples(self) -> torch.Tensor:
        """Samples of the values of every frame, float32 [n]."""
        return torch.cat(self._samples)

    @property
    def mean(self) -> torch.Tensor:
        """The mean of each channel over all frames, float64 [channels]."""
        return self._sum / self._frames


def observe(runs: DenseRuns, images: Sequence[Image]) -> dict[str, Observed]:
    """Run the images, and observe every feature map of the graph."""
    maps = {name: buffer for name, buffer in runs.program.maps.items() if name in runs.graph.tensors}
    observed = {name: Observed(buffer.pixels.shape[1]) for name, buffer in maps.items()}
    generator = torch.Generator().manual_seed(0)
    for _ in runs.run(images):
        for name, buffer in maps.items():
            observed[name].add(buffer.pixels, generator)
    return observed
