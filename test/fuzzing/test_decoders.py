# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Every decoder accepts its seeds and refuses damaged ones that it cannot read; `make fuzz` tests this for longer."""

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
TIMES = int(os.environ.get("CACHEINF_FUZZ_TIMES", "0"))
"""The number of damaged inputs for each decoder; 0: as many as it takes in :data:`SECONDS`, within :data:`AT_ONCE`."""
AT_ONCE = (300, 100_000)
SECONDS = 1.0
DECODERS = all_decoders()
MOST_S = 1.0
"""The most CPU seconds for one input, hundreds of times what any takes; other processes do not affect it."""
MOST_MB = 200
"""The most megabytes by which the process may grow over its size for valid inputs, which are below 0.1 MB."""
COMPILED_OTHERWISE = "CACHEINF_KERNEL_LIBRARY" in os.environ
"""Whether the kernels have sanitizers, which keep freed memory and take several times as long."""


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
    assert all(decode(seed) for seed in sound)  # one-time work takes seconds, and must not count below
    before_mb, longest_s, count, began = restarted_peak_mb(), 0.0, 0, time.process_time()
    while not is_enough(count, time.process_time() - began):
        damaged = mutated(rng.choice(sound), rng)
        start = time.process_time()
        decode(damaged)
        longest_s, count = max(longest_s, time.process_time() - start), count + 1
    if not COMPILED_OTHERWISE:
        assert longest_s < MOST_S
        assert peak_mb() - before_mb < MOST_MB


def is_enough(count: int, passed_s: float) -> bool:
    """Tell whether so many damaged inputs, which took so many seconds of processor time, suffice."""
    least, most = AT_ONCE
    return count >= TIMES if TIMES else count >= most or (count >= least and passed_s > SECONDS)


def restarted_peak_mb() -> float:
    """Reset and return the peak memory, in MB: what the process takes now, or its most so far if it cannot reset it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
