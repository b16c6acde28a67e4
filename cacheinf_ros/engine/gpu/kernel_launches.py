# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Launches kernels, or notes launches so that their kernels can be compiled together, in several threads.

Triton compiles a kernel when it is first launched, one kernel after the other. A network has dozens of them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

_log = logging.getLogger(__name__)
_SAID_FROM_S = 1.0
_ALIGNMENT = 16  # bytes, and what sizes are divisible by: Triton compiles another variant where they are


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """A launch of a kernel that was noted instead of made.

    Attributes:
        kernel: the function that ``triton.jit`` returned.
        grid: the number of programs along each axis.
        arguments: the kernel's arguments, in their order, except its constants.
        constants: the constants that it is compiled for, and Triton's options.
    """

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]

    @property
    def variant(self) -> tuple[Any, ...]:
        """What the kernel is compiled for: launches with the same variant share their machine code."""
        return (self.kernel, *map(_variant, self.arguments), repr(self.constants))


_noted: ContextVar[list[Launch] | None] = ContextVar("noted", default=None)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Launch a kernel; within :func:`noted_launches`, note the launch instead."""
    noted = _noted.get()
    if noted is None:
        kernel[grid](*arguments, **constants)
    else:
        noted.append(Launch(kernel=kernel, grid=grid, arguments=arguments, constants=constants))


@contextmanager
def noted_launches() -> Iterator[list[Launch]]:
    """Note this thread's launches in the list that is returned, instead of making them."""
    launches: list[Launch] = []
    token = _noted.set(launches)
    try:
        yield launches
    finally:
        _noted.reset(token)


def compile_together(launches: Sequence[Launch], device: torch.device) -> None:
    """Compile the kernels of launches on half of this process's processors; the log says how many where it takes long.

    Triton keeps what it has compiled on the disk, where later starts find it. A kernel that fails here is compiled
    again when it is launched, which raises the error if there is one: in some Pythons (3.11 before 3.11.8) two threads
    that parse at once may disturb each other.

    Args:
        launches: the launches, many of which may be of the same kernel.
        device: the CUDA device that they are for.
    """
    variants = list({each.variant: each for each in launches}.values())
    threads = max(1, len(os.sched_getaffinity(0)) // 2)

    def compiled(each: Launch) -> None:
        try:
            with torch.cuda.device(device):
                each.kernel.warmup(*each.arguments, grid=each.grid, **each.constants)
        except Exception:  # Triton's own, of many kinds
            _log.debug("%s is compiled when it is launched", each.kernel, exc_info=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(threads, thread_name_prefix="compile") as pool:
        list(pool.map(compiled, variants))
    took_s = time.perf_counter() - began
    if took_s >= _SAID_FROM_S:
        _log.info("compiled %d kernels for %s in %.1f s, in %d threads", len(variants), device, took_s, threads)


def _variant(argument: Any) -> tuple[Any, ...]:
    if isinstance(argument, torch.Tensor):
        return argument.dtype, argument.data_ptr() % _ALIGNMENT == 0
    if isinstance(argument, int):
        return argument == 1, argument % _ALIGNMENT == 0, argument.bit_length() > 31
    return (type(argument),)
