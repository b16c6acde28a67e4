# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures what a gateway costs, and real robots next to simulated ones."""
