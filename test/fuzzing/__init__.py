# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decoders of all that others send or that lies on disk, each as a function of bytes: see docs/trust.md."""
