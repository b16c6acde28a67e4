# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Starts a node: ``python -m cacheinf_ros.harness.start_node NAME --ros-args ...``.

Started as a file with ``python -S``, as by :class:`~cacheinf_ros.harness.NodeCommand` and scripts/, it blocks signals
before Python reads its site packages: a Ctrl-C in that time would end with a traceback.
"""

import signal
import sys

if __name__ == "__main__":  # before everything else, but not for importers
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
if sys.flags.no_site:
    import site

    site.main()

import faulthandler
import gc
import logging
import os
import traceback
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn

from cacheinf_ros.errors import missing_package
from cacheinf_ros.quiet_end import end_quietly_on_signals

EXECUTABLES = ("cached_inference", "catalog_inference", "inference", "matcher", "replay", "server", "side_by_side")


def main(name: str) -> NoReturn:
    """Import a node, which takes seconds, run it, and end the process with its exit code."""
    end_quietly_on_signals()
    faulthandler.enable()  # a crash of compiled code says where it was
    _log_to_stderr()
    try:
        code = _run(name)
    except Exception:  # a bug must end the process too: Python's own shutdown would wait for threads
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed. Python would now unload modules while threads of torch, numba and Fast DDS still run, which
    # crashes now and then.
    os._exit(code)


def _log_to_stderr() -> None:
    """Show log records until ROS takes over: compiling inner loops at the first start takes half a minute."""
    logger = logging.getLogger("cacheinf_ros")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler())


def _run(name: str) -> int:
    if name not in EXECUTABLES and "." not in name:
        print(f"unknown node {name!r}: give one of {', '.join(EXECUTABLES)}, or a module", file=sys.stderr)
        return 2
    if find_spec("rclpy") is None:
        print("rclpy is not installed: source a ROS 2 distribution, or run `make build`", file=sys.stderr)
        return 2
    try:
        return int(_imported(name if "." in name else f"cacheinf_ros.nodes.{name}").main())
    except ModuleNotFoundError as error:
        print(missing_package(error), file=sys.stderr)
        return 2


def _imported(module: str) -> ModuleType:
    """Import a module, and exempt everything that exists then from garbage collection.

    These are 200,000 objects that stay: looking through them takes up to 0.1 s, and would be done half a dozen times.
    """
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


if __name__ == "__main__":
    main(sys.argv.pop(1) if len(sys.argv) > 1 else "")
