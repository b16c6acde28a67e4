# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""scenenames: a small classifier of the photograph that a built-in scene shows: a robot's "where am I?".

Trunk and head are apart: a head may be retargeted on the trunk's features, and several heads may share one trunk
(MCDNN, sections 5.2.1 and 5.2.2).
"""

from __future__ import annotations

from torch import Tensor, nn

from cacheinf_ros.graph.scenenet import Residual, convolution

# the labels of the model card, cards/scenenames.yaml
_CLASSES = 15
_CHANNELS = (16, 32, 48, 64)
_HIDDEN = 64


def scenenames() -> nn.Module:
    """Build the network, untrained."""
    return SceneNames(classes=_CLASSES)


class SceneNames(nn.Module):
    """A classifier, [n, 3, height, width] -> [n, classes], logits.

    Attributes:
        trunk: local operators, [n, 3, height, width] -> [n, 64, height / 16, width / 16].
        head: global pooling and two dense layers, [n, 64, h, w] -> [n, classes].
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        first, second, third, last = _CHANNELS
        self.trunk = nn.Sequential(
            convolution(3, first, 3, stride=2),
            convolution(first, second, 3, stride=2),
            convolution(second, third, 3, stride=2),
            Residual(third),
            convolution(third, last, 3, stride=2),
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, classes)
        )

    def forward(self, image: Tensor) -> Tensor:
        """Compute the logits, [n, classes], of images, float32 [n, 3, height, width]."""
        logits: Tensor = self.head(self.trunk(image))
        return logits
