# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compares ways to decide what bounded mode holds back."""
