# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Fine-tuning of a changed network on the original's outputs, which needs no labels.

After Hinton et al., "Distilling the Knowledge in a Neural Network", 2015. The original gives an answer for any image,
so that few frames go a long way: each time another part of a frame is shown, enlarged, half of the time mirrored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cacheinf_ros.catalog.build.techniques.probe import as_tensors, outputs_of
from cacheinf_ros.catalog.build.training import one_cycle
from cacheinf_ros.config import Config, parameter
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.decoder_configs import Attributes, Centers, ClassVector

Loss = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]
"""Compares a batch of outputs with the wanted outputs."""
_TEMPERATURE = 2.0
_SMALLEST = 0.8  # smallest part shown, of an image's height and width
_LONGEST = 10.0  # norm to which gradients are clipped
_SEEN = 0.1  # score below which there is no object


class TuningConfig(Config):
    """How long, and with which settings, networks are fine-tuned."""

    steps: int = parameter(150, "steps of fine-tuning of each changed architecture; 0: none", low=0, high=1_000_000)
    batch: int = parameter(4, "frames in a step of fine-tuning", low=2, high=1024)
    learning_rate: float = parameter(1e-3, "highest learning rate of fine-tuning", low=1e-7, high=1.0)
    seed: int = parameter(0, "of the order of frames in fine-tuning", low=0, high=2**31 - 1)


class Tutor:
    """Trains changed networks to give the original's outputs."""

    def __init__(self, model: Model, frames: Sequence[NDArray[np.uint8]], config: TuningConfig) -> None:
        """Prepare the frames, uint8 [height, width, 3] each; without any, :meth:`teach` does nothing."""
        preprocessor = Preprocessor(model.card)
        self._inputs = [torch.from_numpy(preprocessor.input(frame)) for frame in frames]
        self._original, self._pictures = model.module, model.card.pictures
        self._loss = _loss_for(model, self._inputs)
        self._config = config

    @property
    def teaches(self) -> bool:
        """Whether there are frames to train on, and training steps."""
        return bool(self._inputs) and self._config.steps > 0

    def teach(self, module: nn.Module) -> nn.Module:
        """Return a fine-tuned copy in mode eval, after one cycle of Adam; repeatable on one machine."""
        if not self.teaches:
            return module
        config = self._config
        student = copy.deepcopy(module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)  # for dropout layers
            one_cycle(
                student,
                self._batches(np.random.default_rng(config.seed)),
                lambda outputs, wanted: self._loss(as_tensors(outputs), wanted),
                steps=config.steps,
                learning_rate=config.learning_rate,
                steepest=_LONGEST,
            )
        return student.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def _batches(self, rng: np.random.Generator) -> Iterator[tuple[Tensor, list[Tensor]]]:
        for _ in range(self._config.steps):
            images = torch.cat([part_of(self._chosen(rng), rng, self._pictures) for _ in range(self._config.batch)])
            yield images, outputs_of(self._original, images)

    def _chosen(self, rng: np.random.Generator) -> Tensor:
        return self._inputs[rng.integers(len(self._inputs))]


def part_of(image: Tensor, rng: np.random.Generator, pictures: int = 1) -> Tensor:
    """Cut a random part of float32 [1, 3, height, width], enlarged to the same size, half of the time mirrored.

    Of several ``pictures`` side by side the same part of each is cut, and each is mirrored by itself.
    """
    image = torch.cat(image.chunk(pictures, 3))
    height, width = (max(1, round(side * rng.uniform(_SMALLEST, 1.0))) for side in image.shape[2:])
    top, left = (
        int(rng.integers(0, side - part + 1)) for side, part in zip(image.shape[2:], (height, width), strict=True)
    )
    part = image[:, :, top : top + height, left : left + width]
    resized = nn.functional.interpolate(part, image.shape[2:], mode="bilinear")
    return torch.cat((resized.flip(3) if rng.random() < 0.5 else resized).chunk(pictures), 3)


def class_loss(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
    """Return the cross entropy to the original's probabilities at temperature 2 (section 2), summed over outputs.

    Each output is logits [n, classes].
    """

    def entropy(ours: Tensor, theirs: Tensor) -> Tensor:
        probabilities = torch.softmax(theirs / _TEMPERATURE, 1)
        return -(probabilities * torch.log_softmax(ours / _TEMPERATURE, 1)).sum(1).mean()

    return torch.stack([entropy(*pair) for pair in zip(outputs, wanted, strict=True)]).sum() * _TEMPERATURE**2


def center_loss(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
    """Return the loss of a detector of centres, whose output is [n, classes + 4, h, w].

    Heat maps are compared as by Li et al., "Generalized Focal Loss" (2020, equation 3, beta = 2), with the original's
    scores as soft labels; positions by absolute error where the original sees objects.
    """
    (ours,), (theirs,) = outputs, wanted
    heat, place = ours[:, :-4], ours[:, -4:]
    scores = torch.sigmoid(theirs[:, :-4])
    weight = (scores - torch.sigmoid(heat).detach()).square()
    entropy = nn.functional.binary_cross_entropy_with_logits(heat, scores, reduction="none")
    seen = scores.amax(1, keepdim=True)
    seen = seen * (seen > _SEEN)
    count = seen.sum().clamp(min=1)
    return ((weight * entropy).sum() + ((place - theirs[:, -4:]).abs() * seen).sum()) / count


def deviation_loss(deviations: Sequence[float]) -> Loss:
    """Make a loss for any outputs: squared error over the variance of each, given its standard deviation."""

    def loss(outputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
        triples = zip(outputs, wanted, deviations, strict=True)
        return torch.stack([((a - b) / deviation).square().mean() for a, b, deviation in triples]).sum()

    return loss


def _loss_for(model: Model, inputs: Sequence[Tensor]) -> Loss:
    decoder = model.card.decoder
    if isinstance(decoder, Attributes) or (isinstance(decoder, ClassVector) and decoder.softmax):
        return class_loss
    if isinstance(decoder, Centers):
        return center_loss
    answers = [outputs_of(model.module, image) for image in inputs]
    stacked = [torch.cat(values) for values in zip(*answers, strict=True)]
    return deviation_loss([max(float(values.std()), 1e-6) for values in stacked])
