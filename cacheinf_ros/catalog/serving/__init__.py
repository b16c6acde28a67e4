# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Several models on one camera, asked at their own rates and served from catalogs."""
