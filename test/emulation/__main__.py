# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Run tests with the kernels on an emulated processor: ``python -m emulation cortex-a76 test/engine/kernels``."""

from __future__ import annotations

import os
import subprocess
import sys

from emulation import aarch64


def main() -> int:
    """Compile the kernels, then run pytest with all arguments but the first."""
    processor, *arguments = sys.argv[1:]
    aarch64.build()
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=aarch64.ROOT, env=os.environ | aarch64.environment(processor)).returncode


if __name__ == "__main__":
    sys.exit(aarch64.missing() or main())
