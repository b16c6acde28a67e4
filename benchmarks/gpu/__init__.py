# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The time of frames on a GPU: predicted without one, and measured where there is one."""
