# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine on a GPU: kernels in Triton, active sets that stay on the device, and each frame as one CUDA graph.

Triton is optional (``pip install triton``), so modules in this package are imported only where they are needed.
"""
