# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tables and figures of the papers, theirs next to ours; docs/papers.md explains the differences."""
