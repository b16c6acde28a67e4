# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a model's outputs mean: classes, boxes or a class map."""

from cacheinf_ros.engine.decoders.decode import decode
from cacheinf_ros.engine.decoders.decoded import Box, Decoded, ScoredClass

__all__ = ["Box", "Decoded", "ScoredClass", "decode"]
