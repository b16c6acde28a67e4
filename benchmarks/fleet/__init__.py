# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a gateway costs, and real robots beside simulated ones."""
