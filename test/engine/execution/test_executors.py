# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The compiled executor equals the reference, with and without delta thresholds, over sequences of frames."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.shared_models import mixed_model
from programs import change

from cacheinf_ros.engine.backends import ReferenceBackend, choose_backend
from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED, Criterion, DeltaThreshold
from cacheinf_ros.engine.program import Program

CPU = torch.device("cpu")
MIXED = mixed_model()


@settings(max_examples=15)
@given(
    criterion=st.sampled_from(Criterion),
    threshold=st.sampled_from([0.0, 0.05, 0.5]),
    weighted=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_compiled_equals_reference(criterion: Criterion, threshold: float, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    programs = [Program(MIXED.graph, kernels) for kernels in (choose_backend("cpu", 2), ReferenceBackend(CPU))]
    thresholds = {
        operator.output: DeltaThreshold(
            # off the values that occur, so that rounding cannot decide
            threshold=threshold * (1 + 1e-4),
            criterion=criterion,
            weight=rng.random(MIXED.graph.tensors[operator.output].channels, np.float32) if weighted else None,
        )
        for operator, _ in programs[0].profile.timeable()
        if rng.random() < 0.5
    }
    for program in programs:
        program.set_thresholds(thresholds)
    everything = np.ones((61, 47), np.uint8)
    image = torch.from_numpy(rng.random((61, 47, 3), np.float32))
    for step in range(4):
        mask = everything if step == 0 else (rng.random((61, 47)) < 0.05).astype(np.uint8)
        outputs = []
        for program in programs:
            change(program, image, mask)
            outputs.append(program.execute(refresh=step == 0))
        for ours, reference in zip(outputs[0].values(), outputs[1].values(), strict=True):
            assert torch.allclose(ours, reference, atol=1e-3)
        image = image + torch.from_numpy(rng.normal(0, 0.1, (61, 47, 3)).astype(np.float32))


def test_holding_back_what_did_not_change_is_exact() -> None:
    """A threshold of 0 passes every change on, and nothing else."""
    programs = [Program(MIXED.graph, choose_backend("cpu", 1)) for _ in range(2)]
    programs[1].set_thresholds({operator.output: NOTHING_CHANGED for operator, _ in programs[1].profile.timeable()})
    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.random((61, 47, 3), np.float32))
    for step in range(3):
        mask = np.ones((61, 47), np.uint8) if step == 0 else (rng.random((61, 47)) < 0.02).astype(np.uint8)
        results = []
        for program in programs:
            change(program, image, mask)
            results.append([value.clone() for value in program.execute().values()])
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
        image = image + 0.1
    change(programs[1], image * 0 + programs[1].input.pixels.view(61, 47, 3), np.ones((61, 47), np.uint8))
    programs[1].execute()
    changed = [programs[1].plan.changed[operator.output].count for operator, _ in programs[1].profile.timeable()]
    assert not any(changed), "the same values again are no change"


def test_pooling_sees_neighbours_beyond_what_is_computed_at_once() -> None:
    """With one thread about 5 lines are computed at once, of 40 lines of 50 pixels with 512 channels."""
    torch.manual_seed(0)
    graph = graph_of(torch.nn.Conv2d(3, 512, 3, padding=1), (40, 50))
    rng = np.random.default_rng(0)
    output = graph.outputs[0][1]
    programs = [Program(graph, kernels) for kernels in (choose_backend("cpu", 1), ReferenceBackend(CPU))]
    image, everything = torch.from_numpy(rng.random((40, 50, 3), np.float32)), np.ones((40, 50), np.uint8)
    changed = []
    for program in programs:
        program.set_thresholds({output: DeltaThreshold(threshold=1.285, criterion=Criterion.POOLED_ENERGY)})
        change(program, image, everything)
        program.execute(refresh=True)
        noisy = image + torch.from_numpy(np.random.default_rng(1).normal(0, 0.1, (40, 50, 3)).astype(np.float32))
        change(program, noisy, everything)
        program.execute()
        changed.append(program.plan.changed[output].mask.copy())
    assert 0.1 < changed[0].mean() < 0.9
    assert (changed[0] != changed[1]).mean() < 0.002  # rounding


def test_what_moved_in_is_passed_on_whatever_its_channels_weigh() -> None:
    """Some channels have weight 0, as no operator reads them."""
    torch.manual_seed(0)
    graph = graph_of(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 1), torch.nn.Conv2d(8, 4, 3, padding=1)), (16, 16))
    inner = graph.operators[0].output
    weight = np.array([0, 1e-4] * 4, np.float32)
    for criterion in Criterion:
        program = Program(graph, choose_backend("cpu", 1))
        program.set_thresholds({inner: DeltaThreshold(threshold=1e-3, criterion=criterion, weight=weight)})
        image = torch.from_numpy(np.random.default_rng(0).random((16, 16, 3), np.float32))
        change(program, image, np.ones((16, 16), np.uint8))
        program.execute(refresh=True)
        program.shift(4, 0)
        entered = np.zeros((16, 16), np.uint8)
        entered[:, :4] = 1
        change(program, image, entered)
        program.execute()
        assert program.maps[inner].pixels.abs().max() < 1e3
