# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The laboratory: experiments of the papers, and code that is only there to be compared with. It is not installed."""
