# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Small classifiers for the classes that a stream shows now (MCDNN, section 5.2.1)."""
