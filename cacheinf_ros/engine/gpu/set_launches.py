# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The steps that fill active sets, as launches: each is prepared once and reads whatever its sources hold then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.gpu import set_kernels
from cacheinf_ros.engine.gpu.device_set import DeviceSet
from cacheinf_ros.engine.gpu.pixel_launch import Tiles, columns_of, power_of_two

Action = Callable[[], None]
REFRESH = 16
_WHOLE = 1024  # pixels of a program that looks at whole masks


class SetLaunches:
    """Prepares launches for the sets of one plan."""

    def __init__(self, device: torch.device, tiles: Tiles, counts: torch.Tensor, flags: torch.Tensor) -> None:
        """Take what all steps share.

        Args:
            counts: int32 [sets]: how many pixels each set has.
            flags: int32 [1]: of the frame: the sides of :class:`Border`, and :data:`REFRESH`.
        """
        self._device = device
        self._tiles = tiles
        self._counts = counts
        self._flags = flags
        self._masked = max(_WHOLE, tiles.pixels)

    def propagation(
        self, table: TapTable, source: DeviceSet, target: DeviceSet, in_width: int, *, inwards: bool, listed: bool
    ) -> Action:
        """Fill a set with the pixels that read one of the source."""
        rows, columns = (torch.from_numpy(t).to(self._device) for t in (table.rows, table.columns))
        grid = self._grid(target)

        def run() -> None:
            set_kernels.propagate[grid](
                source.mask, source.count, rows, columns, self._flags, target.mask, target.listed, target.count,
                IN_PIXELS=source.pixels, IN_WIDTH=in_width, OUT_WIDTH=columns.shape[0], OUT_PIXELS=target.pixels,
                TAPS_Y=rows.shape[1], TAPS_X=columns.shape[1], INWARDS=inwards, LIST=listed, PIXELS=self._masked,
            )  # fmt: skip

        return run

    def combination(
        self, first: DeviceSet, second: DeviceSet, target: DeviceSet, *, difference: bool, listed: bool, counted: bool
    ) -> Action:
        """Fill a set with the pixels of either, or of the first without the second."""
        grid = self._grid(target)

        def run() -> None:
            set_kernels.combine_sets[grid](
                first.mask, second.mask, target.mask, target.listed, target.count, OUT_PIXELS=target.pixels,
                DIFFERENCE=difference, LIST=listed, COUNT=counted, PIXELS=self._masked,
            )  # fmt: skip

        return run

    def filling(self, sources: Sequence[DeviceSet], target: DeviceSet, flags: int, *, listed: bool) -> Action:
        """Fill a set completely if any of the sources has a pixel, or one of these flags is set."""
        numbers = [source.number for source in sources]
        slots = power_of_two(len(numbers))
        numbers += numbers[:1] * (slots - len(numbers))
        which = torch.tensor(numbers, dtype=torch.int32, device=self._device)
        grid = self._grid(target)

        def run() -> None:
            set_kernels.fill_if_any[grid](
                self._counts, which, self._flags, target.mask, target.listed, target.count,
                SETS=slots, FLAGS=flags, OUT_PIXELS=target.pixels, LIST=listed, PIXELS=self._masked,
            )  # fmt: skip

        return run

    def commitment(
        self, delta: DeltaThreshold, out: torch.Tensor, size: tuple[int, int], active: DeviceSet, changed: DeviceSet,
        *, listed: bool,
    ) -> Callable[[torch.Tensor], None]:  # fmt: skip
        """Write those of the active pixels that changed enough: [most, channels] as listed, of ``out``'s type."""
        channels = out.shape[1]
        columns = columns_of(channels, self._tiles)
        weight = torch.ones(channels) if delta.weight is None else torch.from_numpy(delta.weight)
        weight = weight.to(self._device, torch.float32)
        is_pooled = delta.criterion is Criterion.POOLED_ENERGY
        squares = torch.zeros(active.pixels if is_pooled else 1, device=self._device)
        threshold = delta.threshold if delta.criterion is Criterion.MAXIMUM else delta.squared_threshold
        grid = (-(-active.pixels // self._tiles.pixels),)
        tiles = {"PIXELS": self._tiles.pixels, "COLUMNS": columns}

        def run(computed: torch.Tensor) -> None:
            compared = (computed, computed.stride(0), out, out.stride(0), weight)
            if is_pooled:
                squares.zero_()
                set_kernels.squared_changes[grid](
                    *compared, active.listed, active.count, squares, CHANNELS=channels, **tiles
                )
            set_kernels.commit[grid](
                *compared, threshold, self._flags, squares, active.listed, active.count,
                changed.mask, changed.listed, changed.count,
                HEIGHT=size[0], WIDTH=size[1], CHANNELS=channels, CRITERION=delta.criterion.value, LIST=listed, **tiles,
            )  # fmt: skip

        return run

    def _grid(self, target: DeviceSet) -> tuple[int]:
        return (-(-target.pixels // self._masked),)
