# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sessions with a server, sans-I/O: they decide what to send, and what to make of the answers."""

# The parts of the protocol, for code that relays, damages or answers packets itself.
__all__ = ["greeting", "link_faults", "packets", "transfer"]
