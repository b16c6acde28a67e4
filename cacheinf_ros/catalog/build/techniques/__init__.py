# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Techniques that make a network cheaper and less accurate (MCDNN, section 5.1): functions on torch modules."""

from cacheinf_ros.catalog.build.techniques.change import BITS, Change, Inapplicable, Recipe, Technique
from cacheinf_ros.catalog.build.techniques.perform import perform, planned
from cacheinf_ros.catalog.build.techniques.quantise import pack, unpack

__all__ = ["BITS", "Change", "Inapplicable", "Recipe", "Technique", "pack", "perform", "planned", "unpack"]
