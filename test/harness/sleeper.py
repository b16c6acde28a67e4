# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A stand-in for a node where only the process matters: it is ready at once, and sleeps."""

from __future__ import annotations

import time

HOURS_S = 3600.0


def main() -> int:
    print("sleeper: ready", flush=True)
    time.sleep(HOURS_S)
    return 0
