# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What each matching algorithm takes and finds (DeepCache's Table 4)."""
