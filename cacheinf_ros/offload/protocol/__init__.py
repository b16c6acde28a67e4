# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sessions with a server, sans-I/O: what to send, and what to make of the answers."""

# What the protocol is made of, for those who relay, damage or answer packets themselves.
__all__ = ["greeting", "link_faults", "packets", "transfer"]
