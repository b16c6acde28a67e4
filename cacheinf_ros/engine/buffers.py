"""Cached feature maps as rows: one row of channels per pixel."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_ALIGNMENT = 16  # floats: a cache line


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBuffer:
    """A feature map, possibly a range of channels of a wider one.

    Attributes:
        rows: float32 [height * width, channels]; stride(0) is the pitch.
        size: (height, width).
    """

    rows: torch.Tensor
    size: tuple[int, int]

    @classmethod
    def allocate(cls, size: tuple[int, int], channels: int, device: torch.device) -> MapBuffer:
        """A zeroed map of its own, aligned to cache lines."""
        flat = torch.zeros(size[0] * size[1] * channels + _ALIGNMENT, device=device)
        skip = -(flat.data_ptr() // 4) % _ALIGNMENT
        rows = flat[skip : skip + size[0] * size[1] * channels].view(-1, channels)
        return cls(rows=rows, size=size)

    def channels(self, first: int, count: int) -> MapBuffer:
        """The same pixels, some of the channels."""
        return MapBuffer(rows=self.rows[:, first : first + count], size=self.size)

    @property
    def image(self) -> torch.Tensor:
        """float32 [1, channels, height, width], a view in channels_last order."""
        return self.rows.unflatten(0, self.size).permute(2, 0, 1).unsqueeze(0)

    def move(self, dx: int, dy: int) -> None:
        """Move the picture by whole pixels; what enters at the border keeps stale values."""
        height, width = self.size
        if abs(dx) >= width or abs(dy) >= height or (dx, dy) == (0, 0):
            return
        pixels = self.rows.unflatten(0, self.size)
        moved = pixels[max(0, -dy) : height - max(0, dy), max(0, -dx) : width - max(0, dx)].clone()
        pixels[max(0, dy) : height - max(0, -dy), max(0, dx) : width - max(0, -dx)] = moved
