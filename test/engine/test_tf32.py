# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rounding torch's convolutions on a GPU to TF32 is set only while something computes, and restored afterwards."""

from __future__ import annotations

import threading

import pytest
import torch

from cacheinf_ros.engine.tf32 import in_full_precision, tf32

CUDNN = torch.backends.cudnn
GPU = torch.device("cuda")  # the machine need not have one


@pytest.mark.parametrize("before", [True, False])
def test_what_was_set_is_put_back(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CUDNN, "allow_tf32", before)
    monkeypatch.setattr(CUDNN, "benchmark", False)
    with tf32(GPU, allowed=not before, benchmark=True):
        assert (CUDNN.allow_tf32, CUDNN.benchmark) == (not before, True)
        assert in_full_precision(lambda value: (value, CUDNN.allow_tf32), GPU)(3) == (3, False)
        assert CUDNN.allow_tf32 is not before
    assert (CUDNN.allow_tf32, CUDNN.benchmark) == (before, False)


def test_elsewhere_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CUDNN, "allow_tf32", True)
    with tf32(torch.device("cpu"), allowed=False):
        assert CUDNN.allow_tf32
    run = lambda: CUDNN.allow_tf32  # noqa: E731
    assert in_full_precision(run, torch.device("cpu")) is run


def test_threads_that_want_it_otherwise_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CUDNN, "allow_tf32", True)
    entered, seen = threading.Event(), []

    def rounds() -> None:
        entered.set()
        with tf32(GPU, allowed=True):
            seen.append(CUDNN.allow_tf32)

    thread = threading.Thread(target=rounds)
    with tf32(GPU, allowed=False):
        thread.start()
        assert entered.wait(10.0)
        assert not seen and not CUDNN.allow_tf32
    thread.join(10.0)
    assert seen == [True] and CUDNN.allow_tf32
