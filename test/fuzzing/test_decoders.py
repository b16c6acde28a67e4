# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Every decoder takes its seeds, and of damaged ones refuses what it cannot read; `make fuzz` does so for longer."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fuzzing.decoders import all_decoders
from fuzzing.mutation import mutated

SEEDS = Path(__file__).parent / "seeds"
TIMES = int(os.environ.get("CACHEINF_FUZZ_TIMES", "300"))
"""Damaged inputs for each decoder."""
DECODERS = all_decoders()


def seeds(target: str, pattern: str = "[0-9]*") -> list[bytes]:
    return [path.read_bytes() for path in sorted((SEEDS / target).glob(pattern))]


def test_every_decoder_has_seeds() -> None:
    assert DECODERS.keys() <= {folder.name for folder in SEEDS.iterdir()}


@pytest.mark.parametrize("target", DECODERS)
def test_seeds_are_accepted(target: str) -> None:
    assert all(DECODERS[target](seed) for seed in seeds(target))


@pytest.mark.parametrize("target", DECODERS)
def test_what_once_did_harm_is_refused(target: str) -> None:
    assert not any(DECODERS[target](seed) for seed in seeds(target, "refused*"))


@pytest.mark.parametrize("target", DECODERS)
def test_damaged_ones_are_refused_or_harmless(target: str) -> None:
    rng, decode = random.Random(0), DECODERS[target]
    sound = seeds(target)
    assert not decode(b"")
    for _ in range(TIMES):
        decode(mutated(rng.choice(sound), rng))
