# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The kernels compiled for aarch64 run in qemu, on processors with and without the instructions that they use.

Other tests run once more with these kernels; int8 is compared bit for bit with this machine's own kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from emulation import aarch64
from emulation.emulated_library import EmulatedLibrary

HERE = Path(__file__).parent
INT8, FLOATS = (
    [HERE / "test_int8.py"],
    [HERE / "test_windows.py", HERE / "test_bfloat16.py", HERE / "test_denormals.py"],
)
SINGLE = [*INT8, *FLOATS, HERE / "test_pointwise.py", HERE / "test_resampling.py"]
PROGRAMS = [HERE.parent / "execution", HERE.parent / "test_input.py", HERE.parent / "test_following.py"]
# A whole engine that times its kernels, and many networks more than the emulator has time for.
SLOW = "not near_the_exact and not random_networks and not inverted_bottlenecks"

if "CACHEINF_KERNEL_LIBRARY" in os.environ:
    pytest.skip("other kernels are tested", allow_module_level=True)
if _missing := aarch64.missing():
    pytest.skip(f"kernels for aarch64 are not tested: {_missing}", allow_module_level=True)


@pytest.fixture(scope="module")
def library() -> Path:
    return aarch64.build()


@pytest.mark.parametrize("processor", aarch64.INSTRUCTION_SETS)
def test_a_processor_runs_the_best_that_it_has(processor: str, library: Path) -> None:
    with closing(EmulatedLibrary(aarch64.command(processor), library)) as emulated:
        best = emulated.ci_instruction_set()
        assert best == aarch64.INSTRUCTION_SETS[processor]
        assert emulated.ci_has_byte_dot() == (best != b"base")
        assert emulated.ci_has_bfloat16() == (best == b"i8mm")


@pytest.mark.parametrize(
    ("processor", "checks"),
    [("cortex-a72", [*INT8, *FLOATS]), ("cortex-a76", INT8), ("max", [*SINGLE, *PROGRAMS])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_same_checks_hold(processor: str, checks: list[Path], library: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", SLOW, *map(str, checks)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= aarch64.environment(processor)
    done = subprocess.run(command, cwd=aarch64.ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
