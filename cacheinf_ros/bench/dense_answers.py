# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Answers of dense engines, as nodes would give them, and what they decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cacheinf_ros.bench.kept_answers import KeptAnswer
from cacheinf_ros.bench.loss import MOST_PIXELS
from cacheinf_ros.bench.output_errors import ErrorScale
from cacheinf_ros.bench.shots import Image, varied_images
from cacheinf_ros.bench.timing import timed
from cacheinf_ros.engine import Preprocessor, decode
from cacheinf_ros.engine.decisions import Task, task_of_model
from cacheinf_ros.engine.dense_backends import Dense
from cacheinf_ros.graph import Model


class DenseAnswers:
    """Runs dense engines on frames until their outputs are decoded, as users get them, and reads their decisions.

    Attributes:
        task: the task that reads what outputs decide. No user waits for that: it takes none of an answer's time.
        example: the outputs for the first image, by name.
    """

    def __init__(self, model: Model, exact: Dense, images: Sequence[Image]) -> None:
        """Choose the task.

        Args:
            exact: an engine in float32.
            images: images of the recording. Outputs without a decoder are judged by their deviation over these and
                other images.
        """
        self._card = model.card
        self._names = [name for name, _ in model.graph.outputs]
        self._preprocessor = Preprocessor(model.card)
        outputs = [exact(self._preprocessor.input(image)) for image in varied_images(images)]
        self.example: Mapping[str, Any] = self._named(outputs[0])
        self.task: Task[Any] = task_of_model(
            model.card, self.example, ErrorScale(outputs).deviations, most_pixels=MOST_PIXELS
        )

    def outputs(self, run: Dense, image: Image) -> dict[str, Any]:
        """Compute the outputs for a frame, without decoding them."""
        return self._named(run(self._preprocessor.input(image)))

    def answer(self, run: Dense, image: Image, clock: Callable[..., tuple[Any, float]] = timed) -> KeptAnswer:
        """Answer a frame; the time ends when the outputs are decoded.

        Args:
            clock: returns a call's result, and how many milliseconds it took.
        """
        outputs, took_ms = clock(self._decoded, run, image)
        return self.read(outputs, image, took_ms)

    def read(self, outputs: Mapping[str, Any], image: Image, took_ms: float) -> KeptAnswer:
        """Read what outputs for a frame decide, ``took_ms`` after it came."""
        return KeptAnswer(decision=self.task.read(outputs, _size(image)), took_ms=took_ms)

    def _decoded(self, run: Dense, image: Image) -> dict[str, Any]:
        outputs = self.outputs(run, image)
        decode(outputs, self._card, _size(image))
        return outputs

    def _named(self, outputs: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self._names, outputs, strict=True))


def _size(image: Image) -> tuple[int, int]:
    return image.shape[0], image.shape[1]
