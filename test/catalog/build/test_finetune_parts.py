# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parts of pictures on which variants are taught: of two pictures side by side, each keeps to its half."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cacheinf_ros.catalog.build.finetune import part_of


@pytest.mark.parametrize("seed", range(8))
def test_each_picture_keeps_to_its_half(seed: int) -> None:
    left = torch.rand(1, 3, 12, 20)
    frame = torch.cat((left, left + 10.0), dim=3)
    first, second = part_of(frame, np.random.default_rng(seed), pictures=2).chunk(2, dim=3)
    assert first.shape == left.shape
    torch.testing.assert_close(second, first + 10.0, rtol=0, atol=1e-5)
    alone = part_of(left, np.random.default_rng(seed))
    torch.testing.assert_close(first, alone)
