# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Every decoder takes its seeds, and of damaged ones refuses what it cannot read; `make fuzz` does so for longer."""

from __future__ import annotations

import os
import random
import resource
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fuzzing.decoders import all_decoders
from fuzzing.mutation import mutated

SEEDS = Path(__file__).parent / "seeds"
TIMES = int(os.environ.get("CACHEINF_FUZZ_TIMES", "300"))
"""Damaged inputs for each decoder."""
DECODERS = all_decoders()
MOST_S = 1.0
"""Of processor time for one input, which other processes do not lengthen; hundreds of times what any takes."""
MOST_MB = 200
"""By which the process may grow beyond what it takes for whole inputs, which are below 0.1 MB."""
COMPILED_OTHERWISE = "CACHEINF_KERNEL_LIBRARY" in os.environ
"""With sanitizers, which keep what was freed, and take several times as long."""


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
    assert all(decode(seed) for seed in sound)  # what is done once takes seconds
    before_mb, longest_s = restarted_peak_mb(), 0.0
    for _ in range(TIMES):
        damaged = mutated(rng.choice(sound), rng)
        start = time.process_time()
        decode(damaged)
        longest_s = max(longest_s, time.process_time() - start)
    if not COMPILED_OTHERWISE:
        assert longest_s < MOST_S
        assert peak_mb() - before_mb < MOST_MB


def restarted_peak_mb() -> float:
    """What the process takes now, where the system forgets for us what it took before; else the most so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
