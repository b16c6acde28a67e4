# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Small classifiers for the classes that a stream shows now (MCDNN, section 5.2.1)."""

from cacheinf_ros.catalog.specialists.specialist_folder import original_name, original_weights, read_specialise

__all__ = ["original_name", "original_weights", "read_specialise"]
__all__ += ["other_robots", "specialiser"]
