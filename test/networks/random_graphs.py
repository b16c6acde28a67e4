# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Small random networks of everything that convolutional networks consist of, each determined by its seed.

A network is a list of blocks; most read the newest feature map, some a second one too. Blocks that do not fit the size
of the map, or that amplify rounding errors, are drawn again. Every block's result is scaled to a standard deviation of
about 1, so that errors are comparable.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from networks.random_blocks import BLOCKS, HEADS, Block
from torch import Tensor, nn

SIZES = (17, 40)
_MOST_AMPLIFIED = 30.0  # the factor by which a block may amplify a small error
_MOST_VALUES = 40_000  # in a feature map, so that networks stay fast


class RandomNetwork(nn.Module):
    """A network that computes its blocks one after the other.

    Attributes:
        input_size: (height, width) of its image.
        names: the blocks' names, for messages.
    """

    def __init__(self, input_size: tuple[int, int]) -> None:
        super().__init__()
        self.input_size = input_size
        self.names: list[str] = []
        self.blocks = nn.ModuleList()
        self._reads: list[tuple[int, ...]] = []
        self._outputs: list[int] = []

    def add(self, name: str, block: nn.Module, reads: tuple[int, ...], *, is_output: bool = False) -> None:
        """Append a block that reads the results of these blocks; 0 stands for the image."""
        self.names.append(name)
        self.blocks.append(block)
        self._reads.append(reads)
        if is_output:
            self._outputs.append(len(self.blocks))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Compute the outputs for an image [1, 3, height, width]."""
        values = [image]
        for block, reads in zip(self.blocks, self._reads, strict=True):
            values.append(block(*(values[i] for i in reads)))
        return {f"output{i}": values[i] for i in self._outputs}


class _Scaled(nn.Module):
    def __init__(self, block: nn.Module, factor: float) -> None:
        super().__init__()
        self.block = block
        self.factor = factor

    def forward(self, *values: Tensor) -> Tensor:
        return self.block(*values) * self.factor


def random_network(seed: int) -> RandomNetwork:
    """Return the network of a seed: untrained, in inference mode, for images of 17 to 40 pixels each way."""
    rng = random.Random(seed)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        return _Growing(rng).network()


class _Growing:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._network = RandomNetwork((rng.randint(*SIZES), rng.randint(*SIZES))).eval()
        self._values = [torch.randn(1, 3, *self._network.input_size)]

    def network(self) -> RandomNetwork:
        for _ in range(self._rng.randint(2, 8)):
            self._add(BLOCKS, self._reads(), is_output=False)
        last = len(self._values) - 1
        heads = self._rng.randint(1, 2)
        for _ in range(heads):
            self._add(HEADS, (last,), is_output=True)
        if self._rng.random() < 0.3:
            self._add(HEADS, (self._rng.randint(1, last),), is_output=True)
        return self._network.eval()

    def _reads(self) -> tuple[int, ...]:
        """Return the newest map, and an earlier one of the same size if there is one."""
        newest = len(self._values) - 1
        size = self._values[newest].shape[2:]
        others = [i for i, value in enumerate(self._values[:-1]) if value.shape[2:] == size]
        return (newest, self._rng.choice(others)) if others else (newest,)

    def _add(self, blocks: Sequence[Block], reads: tuple[int, ...], *, is_output: bool) -> None:
        while True:
            block = self._rng.choice(blocks)
            module, value, used = self._tried(block, reads)
            if module is not None and value is not None:
                self._network.add(block.__name__, module, used, is_output=is_output)
                self._values.append(value)
                return

    def _tried(self, block: Block, reads: tuple[int, ...]) -> tuple[nn.Module | None, Tensor | None, tuple[int, ...]]:
        module = block(self._rng, *(tuple(self._values[i].shape[1:]) for i in reads))
        if module is None:
            return None, None, reads
        used = reads[: module.reads]
        try:
            value = module.eval()(*(self._values[i] for i in used))
            nearby = module(*(self._values[i] + 1e-3 * torch.randn_like(self._values[i]) for i in used))
        except (RuntimeError, ValueError):  # a window larger than the map
            return None, None, used
        spread = float(value.std()) if value.numel() > 1 else 1.0
        if not 0 < value.numel() <= _MOST_VALUES or not 1e-3 < spread < 1e3:
            return None, None, used
        if float((nearby - value).abs().max()) > _MOST_AMPLIFIED * 1e-3 * spread:
            return None, None, used
        if 0.3 < spread < 3:
            return module, value, used
        return _Scaled(module, 1 / spread).eval(), value / spread, used
