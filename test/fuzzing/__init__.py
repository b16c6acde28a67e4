# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoders of everything that comes from others or from disk, each as a function of bytes: see docs/trust.md."""
