# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Links and pictures of the comparison with other ways to divide the work."""
