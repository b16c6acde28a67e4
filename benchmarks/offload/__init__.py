# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The comparison with other ways to divide the work between robot and server, over shaped links."""
