# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parts of :func:`cacheinf_ros.graph.fuse.fuse`: a rule for each pair of operators that can be one."""
