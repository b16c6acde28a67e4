# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Experiments, peers and the papers' baselines: beside the package, not installed with it."""
