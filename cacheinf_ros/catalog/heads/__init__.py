# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""One computation of what several models on a stream have in common (MCDNN, section 5.2.2)."""
