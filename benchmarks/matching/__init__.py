# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures how long each matching algorithm takes and how much it finds (DeepCache's Table 4)."""
