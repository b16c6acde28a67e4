# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a node with catalogs does once on a machine, before it says that it is ready."""

from __future__ import annotations

from collections.abc import Iterable

from rclpy.node import Node

from cacheinf_ros.catalog.catalog_folder import CatalogFolder
from cacheinf_ros.errors import CacheinfError


def prepare_catalogs(node: Node, folders: Iterable[CatalogFolder]) -> None:
    """Have variants loaded fast from now on; a catalog with one that cannot be loaded is left as it is, and named.

    Whoever asks for that variant is told again.
    """
    for folder in folders:
        try:
            folder.prepare(node.get_logger().info)
        except CacheinfError as error:
            node.get_logger().error(f"catalog of {folder.file.name}: {error}")
