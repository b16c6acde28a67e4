# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""All that the engine knows of two machines: which rows of each operator each computes, and what the other needs."""
