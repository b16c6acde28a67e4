# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Checked YAML files and file hashes, which the folders of catalogs, specialists and heads consist of."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from cacheinf_ros.config import Config
from cacheinf_ros.disk_cache import digest, replacing
from cacheinf_ros.errors import CatalogError, ConfigError
from cacheinf_ros.yaml_text import read_yaml_text, whole_yaml

Content = TypeVar("Content", bound=Config)


def read_yaml(path: Path, kind: type[Content], remedy: str) -> Content:
    """Read a YAML file and check it against the class of its content.

    Args:
        kind: the class of the content.
        remedy: what to do about an unusable file, for the error message.

    Raises:
        CatalogError: the file is missing, unreadable, cut off, or says something impossible.
    """
    try:
        content = read_yaml_text(path)
    except (OSError, ValueError) as error:
        raise CatalogError(f"{path} cannot be read: {error}; {remedy}") from None
    if not isinstance(content, dict):
        raise CatalogError(f"{path} must be a mapping; {remedy}")
    try:
        return kind.checked(**{str(key): value for key, value in content.items()})
    except (ConfigError, ValueError) as error:  # ValueError: numbers of thousands of digits
        raise CatalogError(f"{path}: {error}; {remedy}") from None


def write_yaml(path: Path, content: Config) -> None:
    """Replace a file by one that :func:`read_yaml` reads; raises :class:`OSError` where that fails."""
    with replacing(path) as unfinished:
        unfinished.write_text(whole_yaml(content.model_dump(mode="json")), encoding="utf-8")


def readable_digest(path: Path) -> str:
    """Make a file readable by others, which safetensors has just made private, and return its SHA-256."""
    path.chmod(0o644)
    return digest(path)
