# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the nodes add to matching and computing."""
