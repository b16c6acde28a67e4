# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Launches for the steps that fill active sets, each prepared once and launched again for every frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cacheinf_ros.engine.delta_threshold import Criterion
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.gpu import set_kernels
from cacheinf_ros.engine.gpu.device_set import DeviceSet
from cacheinf_ros.engine.gpu.kernel_launches import launch
from cacheinf_ros.engine.gpu.limits import Limits
from cacheinf_ros.engine.gpu.pixel_launch import Tiles, columns_of, masked_pixels
from cacheinf_ros.engine.gpu.triton_kernels import below_one_another

Action = Callable[[], None]
REFRESH = 16
TAKES_PART = 32


class SetLaunches:
    """Prepares the launches that fill the sets of one plan."""

    def __init__(self, device: torch.device, tiles: Tiles, counts: torch.Tensor, flags: torch.Tensor) -> None:
        """Take what all steps share.

        Args:
            device: where the sets are.
            tiles: the largest tiles of a program.
            counts: see :class:`DeviceSets`.
            flags: int32 [cameras]: the sum of the sides of :class:`Border`, :data:`REFRESH` and :data:`TAKES_PART` for
                each camera's frame; a camera without :data:`TAKES_PART` keeps its maps as they are.
        """
        self._device = device
        self._tiles = tiles
        self._counts = counts
        self._flags = flags

    def propagation(
        self, table: TapTable, source: DeviceSet, target: DeviceSet, in_width: int, *, inwards: bool, listed: bool
    ) -> Action:
        """Return the launch that fills a set with the pixels that read an active pixel of the source."""
        rows = below_one_another(torch.from_numpy(table.rows), source.of_one // in_width, source.cameras)
        rows, columns = (t.to(self._device) for t in (rows, torch.from_numpy(table.columns)))
        grid, pixels = _divided(target, self._tiles)

        def run() -> None:
            launch(
                set_kernels.propagate, grid,
                source.mask, source.count, rows, columns, self._flags, target.mask, target.listed, target.count,
                IN_PIXELS=source.of_one, IN_WIDTH=in_width, OUT_WIDTH=columns.shape[0], OUT_PIXELS=target.of_one,
                TAPS_Y=rows.shape[1], TAPS_X=columns.shape[1], INWARDS=inwards, CAMERAS=target.cameras, LIST=listed,
                PIXELS=pixels,
            )  # fmt: skip

        return run

    def combination(
        self, first: DeviceSet, second: DeviceSet, target: DeviceSet, *, difference: bool, listed: bool, counted: bool
    ) -> Action:
        """Return the launch that fills a set with the union of two, or with the first without the second."""
        grid, pixels = _divided(target, self._tiles)

        def run() -> None:
            launch(
                set_kernels.combine_sets, grid,
                first.mask, second.mask, target.mask, target.listed, target.count, OUT_PIXELS=target.of_one,
                DIFFERENCE=difference, CAMERAS=target.cameras, LIST=listed, COUNT=counted, PIXELS=pixels,
            )  # fmt: skip

        return run

    def filling(self, sources: Sequence[DeviceSet], target: DeviceSet, flags: int, *, listed: bool) -> Action:
        """Return the launch that fills a camera's part of a set if a source has a pixel of it or a flag is set."""
        which = torch.tensor([source.first_count for source in sources], dtype=torch.int32, device=self._device)
        grid, pixels = _divided(target, self._tiles)

        def run() -> None:
            launch(
                set_kernels.fill_if_any, grid,
                self._counts, which, self._flags, target.mask, target.listed, target.count,
                SETS=len(which), FLAGS=flags, OUT_PIXELS=target.of_one, CAMERAS=target.cameras, LIST=listed,
                PIXELS=pixels,
            )  # fmt: skip

        return run

    def commitment(
        self, limits: Limits, out: torch.Tensor, width: int, active: DeviceSet, changed: DeviceSet, *, listed: bool
    ) -> Callable[[torch.Tensor], None]:
        """Return the launch that writes those active pixels that changed enough, and fills ``changed`` with them.

        It takes the computed pixels, [most, channels] in the order of the list, in the dtype of ``out``.

        Args:
            limits: the cameras' thresholds.
            out: [pixels, channels]: the map.
            width: the width of ``out`` in pixels.
            active: the pixels that were computed.
            changed: filled with the pixels that were written.
            listed: whether those are listed too.
        """
        channels, of_one = out.shape[1], active.of_one
        columns = columns_of(channels, self._tiles)
        is_pooled = limits.criterion is Criterion.POOLED_ENERGY
        squares = torch.zeros(active.pixels if is_pooled else 1, device=self._device)
        grid = (-(-active.pixels // self._tiles.pixels),)
        tiles = {"PIXELS": self._tiles.pixels, "COLUMNS": columns}

        def run(computed: torch.Tensor) -> None:
            compared = (computed, computed.stride(0), out, out.stride(0), limits.weights)
            if is_pooled:
                squares.zero_()
                launch(
                    set_kernels.squared_changes, grid,
                    *compared, active.listed, active.count, squares, OF_ONE=of_one, CHANNELS=channels, **tiles,
                )  # fmt: skip
            launch(
                set_kernels.commit, grid,
                *compared, limits.thresholds, self._flags, squares, active.listed, active.count,
                changed.mask, changed.listed, changed.count,
                HEIGHT=of_one // width, WIDTH=width, CHANNELS=channels, CRITERION=limits.criterion.value,
                CAMERAS=active.cameras, LIST=listed, **tiles,
            )  # fmt: skip

        return run


def _divided(target: DeviceSet, tiles: Tiles) -> tuple[tuple[int], int]:
    """Return (the grid of a launch over all of a set, how many of the set's pixels each program handles)."""
    pixels = max(masked_pixels(target.pixels), tiles.pixels)
    return (-(-target.pixels // pixels),), pixels
