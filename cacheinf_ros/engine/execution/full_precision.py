# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""float32 that means float32 on a GPU: cuDNN rounds the factors of convolutions to TF32 unless it is told not to."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def in_full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Within it torch's convolutions on a device have all 24 bits; of whole images and of listed pixels alike, so that
    cached values stay what dense ones are.

    The setting is one of the process, as torch has it, and what it was before is put back.
    """
    if device.type != "cuda":
        return nullcontext()
    cudnn = torch.backends.cudnn
    kept = {"benchmark": cudnn.benchmark, "deterministic": cudnn.deterministic}
    flags: AbstractContextManager[None] = cudnn.flags(enabled=cudnn.enabled, allow_tf32=False, **kept)
    return flags
