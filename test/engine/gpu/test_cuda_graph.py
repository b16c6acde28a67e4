# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""While a CUDA graph is captured nothing may be released that CUDA could not release then."""

from __future__ import annotations

import gc
from threading import Thread

import pytest
import torch
from triton_devices import DEVICE

from cacheinf_ros.engine.gpu.cuda_graph import captured, no_garbage_collection
from cacheinf_ros.engine.tf32 import tf32


@pytest.mark.parametrize("before", [True, False])
def test_garbage_collection_is_as_it_was_afterwards(before: bool) -> None:
    enabled = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ValueError, match="meanwhile"), no_garbage_collection():
            assert not gc.isenabled()
            raise ValueError("meanwhile")
        assert gc.isenabled() is before
    finally:
        (gc.enable if enabled else gc.disable)()


@pytest.mark.skipif(DEVICE.type != "cuda", reason="only a GPU captures graphs: CACHEINF_TEST_DEVICE=cuda")
@pytest.mark.parametrize("kind", ["graph", "pinned memory"])
def test_a_capture_survives_garbage(kind: str) -> None:
    x = torch.ones(4, device=DEVICE)

    def double() -> None:
        x.mul_(2.0)

    def garbage() -> None:
        held: list[object] = [captured(double, "garbage") if kind == "graph" else _pinned(x)]
        held.append(held)

    def run() -> None:
        double()
        [[] for _ in range(10_000)]  # so many objects that Python would look for garbage
        double()

    for _ in range(3):
        garbage()
        graph = captured(run, "a graph")
        assert graph is not None
        x.fill_(1.0)
        graph.replay()
        assert x.tolist() == [4.0] * 4


def _pinned(like: torch.Tensor) -> torch.Tensor:
    staged = torch.ones(like.shape, pin_memory=True)
    like.copy_(staged, non_blocking=True)
    return staged


@pytest.mark.skipif(DEVICE.type != "cuda", reason="only a GPU captures graphs: CACHEINF_TEST_DEVICE=cuda")
def test_what_cannot_be_captured_leaves_the_thread_on_its_stream() -> None:
    """It was left on the stream on which all captures are made: what others launched there became part of theirs."""
    x, before = torch.ones(4, device=DEVICE), torch.cuda.current_stream()
    assert captured(lambda: print(x.tolist()), "what waits for the device") is None
    assert torch.cuda.current_stream() == before and x.tolist() == [1.0] * 4


@pytest.mark.skipif(DEVICE.type != "cuda", reason="only a GPU captures graphs: CACHEINF_TEST_DEVICE=cuda")
def test_threads_that_capture_do_not_wait_for_each_other() -> None:
    """One held the lock of the precision and wanted that of the garbage collector, the other the reverse."""
    x = torch.ones(4, device=DEVICE)

    def precise() -> None:
        with tf32(DEVICE, allowed=False):
            x.mul_(1.0)

    def outside() -> None:
        with tf32(DEVICE, allowed=False):
            captured(precise, "a frame")

    def inside() -> None:
        captured(precise, "a dense frame")

    threads = [Thread(target=lambda run=run: [run() for _ in range(50)], daemon=True) for run in (outside, inside)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in threads)
