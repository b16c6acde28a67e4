# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many robots on many machines: gateways, the ledger that places sessions, and the processes that compute them."""
