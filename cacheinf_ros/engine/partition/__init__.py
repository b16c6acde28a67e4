# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Divides a graph's work between two machines: which rows each of them computes, and what the other one needs."""
