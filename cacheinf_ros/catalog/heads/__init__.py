# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Several models on one stream, whose common part is computed once (MCDNN, section 5.2.2)."""

from cacheinf_ros.catalog.heads.attribute_heads import Head, train_heads
from cacheinf_ros.catalog.heads.head_folder import CARD, check_name, read_heads, write_heads
from cacheinf_ros.catalog.heads.shared_models import SharedModel

__all__ = ["CARD", "Head", "SharedModel", "check_name", "read_heads", "train_heads", "write_heads"]
