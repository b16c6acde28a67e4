# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The laboratory: experiments of the papers, and what is there only to be compared with. Not installed."""
