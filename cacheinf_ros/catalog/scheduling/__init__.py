# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which variant serves a request, and where: MCDNN's algorithm 1, and days that are simulated with it."""
