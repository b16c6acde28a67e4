# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parts of :func:`cacheinf_ros.graph.lower.lower`: views, and a rule for each kind of ATen operator."""
