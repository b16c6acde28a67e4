# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Building a catalog of variants from a model: techniques, fine-tuning, measuring."""

# Not imported here: these load the training and measuring code, and nodes need the techniques alone.
__all__ = ["add_specialists", "catalog_builder", "catalog_frames", "finetune", "techniques"]
