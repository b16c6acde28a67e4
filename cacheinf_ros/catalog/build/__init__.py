# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From a model to a catalog of its variants: techniques, fine-tuning, measuring."""

# Importing these loads what trains and measures, which nodes do without: they need techniques alone.
__all__ = ["add_specialists", "catalog_builder", "catalog_frames", "finetune", "techniques"]
