# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The tables and figures of DeepCache (Xu et al., 2018), measured with this package's engine."""
