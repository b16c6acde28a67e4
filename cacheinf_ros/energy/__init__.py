# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Joules per frame: measured by the machine's own meters, else by a power model."""
