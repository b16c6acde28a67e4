# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Benchmarks of many models under a budget, as in the MCDNN paper."""
