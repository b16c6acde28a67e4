# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Warping and masked painting of images under a motion; below matching and engine."""
