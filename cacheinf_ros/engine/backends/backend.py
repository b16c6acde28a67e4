# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The interface of backends: all that the engine knows about how a program is executed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.kernels.prepared import PreparedKernel
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph.ir import Levels, Operator


class Executor(Protocol):
    """Executes the steps of one plan."""

    @property
    def microseconds(self) -> NDArray[np.float32]:
        """The microseconds of each step in the last execution, float32 [steps]."""
        ...

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """Execute all steps.

        Args:
            outside: the sides of an image beside which its padding counts as changed.
            refresh: whether every computed pixel is passed on, however small its change.
        """
        ...

    def switch_from(self, index: int, pixels: int) -> None:
        """Use the second kernel of a step, if it has one, from this number of active pixels on."""
        ...

    def time(self, index: int) -> float:
        """Measure the microseconds of one step on the active pixels that its set holds."""
        ...


class Backend(Protocol):
    """Prepares operators and executes them. A program has a backend of its own, or shares it with others of its thread.

    Attributes:
        name: for messages.
        device: where the maps are.
        takes_levels: whether it runs graphs in which tensors are levels.
        floats: the type in which feature maps of floats are to be kept for it.
        mixes_floats: whether its operators read and write maps of any type of floats, or graphs are to convert them.
        strip_bytes: how many bytes of maps its processors' caches hold, for operators that it runs strip by strip; 0:
            it runs each operator as a whole.
    """

    name: str
    device: torch.device
    takes_levels: bool
    floats: torch.dtype
    mixes_floats: bool
    strip_bytes: int

    def prepare(
        self, operator: Operator, sources: Sequence[MapBuffer], channels: int, out: Levels | torch.dtype | None = None
    ) -> PreparedKernel:
        """Prepare a local operator.

        Args:
            sources: the maps of its inputs, in their order.
            channels: the number of channels of the output.
            out: what the output's levels stand for, or the type of its floats; None: float32.

        Raises:
            TypeError: the operator, or the backend, does not compute on levels, or not on these types of floats.
        """
        ...

    def executor(self, executable: Executable) -> Executor:
        """Prepare a plan for execution."""
        ...

    def input(self, preprocessor: Preprocessor, target: MapBuffer, *, on_host: bool = False) -> InputWriter:
        """Return a writer of frames into the map of a model's input.

        Args:
            on_host: whether the mask of what changed must be on the CPU, as another machine is told of it.
        """
        ...

    def shift(self, moves: Sequence[tuple[MapBuffer, int, int]]) -> None:
        """Move maps, each with memory of its own, by (dx, dy) pixels; what enters is marked as far from every value."""
        ...

    def awake(self) -> AbstractContextManager[None]:
        """Return a context for all that a frame needs: within it no thread of the backend falls asleep."""
        ...
