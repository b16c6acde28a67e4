# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf bench`` measures on a user's own model and clip; the papers' experiments are in benchmarks/."""
