# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The ``cacheinf`` command."""
