# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From a model to a catalog of its variants: techniques, fine-tuning, measuring."""
