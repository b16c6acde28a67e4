# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""YAML files in the folders of catalogs and heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml

from cacheinf_ros.config import Config
from cacheinf_ros.errors import CatalogError, ConfigError

Content = TypeVar("Content", bound=Config)


def read_yaml(path: Path, kind: type[Content], remedy: str) -> Content:
    """What a file says.

    Args:
        kind: of its content.
        remedy: what to do about a file that is unusable, for the error.

    Raises:
        CatalogError: the file is missing, unreadable, or says something impossible.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CatalogError(f"{path} cannot be read: {error}; {remedy}") from None
    return checked(content, path, kind, remedy)


def checked(content: Any, path: Path, kind: type[Content], remedy: str) -> Content:
    """The content of a file, once it is known to be possible; raises and takes what :func:`read_yaml` does."""
    if not isinstance(content, dict):
        raise CatalogError(f"{path} must be a mapping; {remedy}")
    try:
        return kind.checked(**{str(key): value for key, value in content.items()})
    except ConfigError as error:
        raise CatalogError(f"{path}: {error}; {remedy}") from None
