# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many models under a budget, as in the MCDNN paper."""
