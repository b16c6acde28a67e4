# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where the package's launch files, parameters and message definitions are installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cacheinf_ros.errors import ConfigError


def share_folder() -> Path:
    """Return ``share/cacheinf_ros`` of the prefix that this package is installed in.

    The PyPI wheels of ROS do not set AMENT_PREFIX_PATH: there the virtual environment is the prefix.

    Raises:
        ConfigError: the folder is in none of the prefixes.
    """
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    for prefix in prefixes:
        folder = Path(prefix) / "share" / "cacheinf_ros"
        if (folder / "config").is_dir():
            return folder
    raise ConfigError(f"share/cacheinf_ros is in none of {prefixes}: run `make build`, or source the workspace's setup")
