# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sessions with a server, sans-I/O: what to send, and what to make of the answers."""
