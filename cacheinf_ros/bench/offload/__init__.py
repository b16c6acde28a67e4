# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How links are limited, and robots slowed down, to compare ways of dividing the work."""
