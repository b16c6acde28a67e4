# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf bench`` runs: every claim of the project is measured here."""
