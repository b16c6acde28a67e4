# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The numbers that CacheInf's draft states, by table and figure.

The paper gives the times of tables 1 and 2 in seconds. Figures 5 and 6 are pictures without numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

Amount: TypeAlias = tuple[float, float] | None
"""A number and its standard deviation; None: not stated, or not legible in the text that is here."""
Pair: TypeAlias = tuple[Amount, Amount]
"""The amounts indoors and outdoors."""
_UNTOLD: Pair = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A system's row in tables 1 and 2, or 4 and 5.

    Attributes:
        transmission_ms, latency_ms: milliseconds per frame.
        share: share of transmission in the latency, %.
        watts: mean power while it runs.
        joules: energy per frame.
    """

    transmission_ms: Pair = _UNTOLD
    latency_ms: Pair
    share: tuple[float | None, float | None] = (None, None)
    watts: Pair
    joules: Pair


PUBLISHED: Mapping[str, Mapping[str, Row]] = MappingProxyType(
    {
        "Kapao": {
            "Local": Row(latency_ms=((1010, 30), (1010, 30)), watts=_UNTOLD, joules=((9.79, 0.03), None)),
            "DS": Row(
                transmission_ms=((210, 100), (240, 120)), latency_ms=((360, 200), (400, 170)),
                share=(58.33, 60.21), watts=((6.38, 2.21), (6.63, 2.38)), joules=((2.30, 0.55), (2.65, 0.55)),
            ),
            "DS-C": Row(
                transmission_ms=((220, 140), (250, 120)), latency_ms=((320, 250), (340, 180)),
                share=(68.75, 73.53), watts=((6.30, 2.15), (6.53, 2.12)), joules=((2.02, 0.50), (2.22, 0.53)),
            ),
            "HP": Row(
                transmission_ms=((240, 150), (280, 130)), latency_ms=((310, 140), (340, 120)),
                share=(77.42, 82.35), watts=((7.05, 1.63), (6.94, 0.98)), joules=((2.19, 0.62), (2.35, 0.42)),
            ),
            "Ours": Row(
                transmission_ms=((160, 130), (210, 180)), latency_ms=((200, 160), (240, 200)),
                share=(80.09, 87.56), watts=_UNTOLD, joules=((1.51, 0.60), None),
            ),
        },
        "AGRNav": {
            "Local": Row(
                latency_ms=((600, 40), (600, 40)), watts=((8.11, 0.25), (8.11, 0.25)),
                joules=((4.86, 0.01), (4.86, 0.01)),
            ),
            "DS": Row(
                transmission_ms=((100, 50), (150, 50)), latency_ms=((410, 110), (470, 120)),
                share=(24.39, 31.91), watts=((6.21, 1.50), (7.29, 1.55)), joules=((2.55, 0.19), (3.43, 0.18)),
            ),
            "DS-C": Row(
                transmission_ms=((130, 70), (160, 60)), latency_ms=((380, 100), (430, 130)),
                share=(34.21, 37.21), watts=((6.17, 1.56), (7.00, 1.43)), joules=((2.34, 0.20), (3.01, 0.20)),
            ),
            "HP": Row(
                transmission_ms=((240, 80), (260, 70)), latency_ms=((300, 90), (330, 70)),
                share=(78.65, 79.47), watts=((7.52, 0.51), (8.04, 0.45)), joules=((2.26, 0.15), (2.63, 0.15)),
            ),
            "Ours": Row(
                transmission_ms=((180, 80), (200, 80)), latency_ms=((210, 160), (250, 180)),
                share=(86.71, 80.01), watts=_UNTOLD, joules=((1.64, 0.17), None),
            ),
        },
        "RegNet": {
            "Local": Row(
                latency_ms=((175.0, 23.6), (175.0, 23.6)), watts=((9.0, 0.3), (9.0, 0.3)),
                joules=((1.37, 0.02), (1.37, 0.02)),
            ),
            "DS": Row(
                transmission_ms=((47.6, 47.8), (60.5, 54.0)), latency_ms=((77.8, 39.3), (86.2, 37.9)),
                share=(61.22, 70.22), watts=((5.84, 1.79), (5.36, 1.34)), joules=((0.45, 0.14), (0.46, 0.12)),
            ),
            "DS-C": Row(
                transmission_ms=((50.7, 49.8), (62.5, 53.6)), latency_ms=((70.8, 33.3), (79.5, 39.2)),
                share=(71.61, 78.61), watts=((6.04, 1.88), (5.96, 1.45)), joules=((0.43, 0.16), (0.47, 0.19)),
            ),
            "HP": Row(
                transmission_ms=((49.6, 21.7), (59.9, 23.4)), latency_ms=((55.0, 24.8), (64.2, 25.2)),
                share=(90.18, 93.34), watts=((5.24, 1.43), (5.28, 1.52)), joules=((0.29, 0.08), (0.34, 0.10)),
            ),
            "Ours": Row(
                transmission_ms=((44.2, 27.7), (48.5, 25.3)), latency_ms=((45.3, 35.0), (49.2, 37.2)),
                share=(97.57, 98.58), watts=((5.20, 1.51), (5.23, 1.77)), joules=((0.24, 0.08), (0.26, 0.09)),
            ),
        },
        "VGG19": {
            "Local": Row(
                latency_ms=((118.0, 18.9), (118.0, 18.9)), watts=((9.78, 0.34), (9.78, 0.34)),
                joules=((0.95, 0.02), (0.95, 0.02)),
            ),
            "DS": Row(
                transmission_ms=((38.9, 47.1), (41.6, 53.8)), latency_ms=((65.2, 28.1), (75.5, 27.1)),
                share=(59.75, 55.09), watts=((6.58, 2.14), (6.93, 2.35)), joules=((0.43, 0.14), (0.52, 0.18)),
            ),
            "DS-C": Row(
                transmission_ms=((42.7, 30.2), (52.0, 50.3)), latency_ms=((53.2, 33.0), (60.3, 30.9)),
                share=(80.26, 86.24), watts=((6.82, 2.10), (7.23, 2.45)), joules=((0.36, 0.18), (0.43, 0.30)),
            ),
            "HP": Row(
                transmission_ms=((44.8, 20.9), (51.5, 15.0)), latency_ms=((47.6, 18.1), (53.6, 14.7)),
                share=(94.15, 96.07), watts=((6.51, 1.74), (7.32, 1.52)), joules=((0.31, 0.08), (0.39, 0.08)),
            ),
            "Ours": Row(
                transmission_ms=((37.8, 31.2), (43.5, 13.2)), latency_ms=((41.1, 20.3), (46.6, 12.8)),
                share=(94.26, 93.34), watts=((6.70, 1.88), (7.22, 1.36)), joules=((0.27, 0.10), (0.34, 0.09)),
            ),
        },
        "ConvNeXt": {
            "Local": Row(
                latency_ms=((316.7, 31.0), (316.7, 31.0)), watts=((9.92, 0.38), (9.92, 0.38)),
                joules=((3.12, 0.03), (3.12, 0.03)),
            ),
            "DS": Row(
                transmission_ms=((56.0, 36.1), (67.0, 37.6)), latency_ms=((79.2, 35.9), (90.6, 35.4)),
                share=(70.72, 73.98), watts=((5.06, 0.31), (5.02, 0.37)), joules=((0.40, 0.02), (0.45, 0.03)),
            ),
            "DS-C": Row(
                transmission_ms=((56.0, 39.0), (63.0, 30.2)), latency_ms=((64.7, 40.2), (68.6, 35.0)),
                share=(86.55, 91.84), watts=((4.86, 0.44), (4.99, 0.39)), joules=((0.31, 0.05), (0.34, 0.09)),
            ),
            "HP": Row(
                transmission_ms=((56.4, 34.7), (66.5, 33.7)), latency_ms=((59.7, 26.6), (68.0, 26.6)),
                share=(94.43, 97.88), watts=((4.57, 0.23), (4.54, 0.25)), joules=((0.27, 0.01), (0.31, 0.02)),
            ),
            "Ours": Row(
                transmission_ms=((40.4, 37.8), (46.9, 40.0)), latency_ms=((44.7, 33.3), (49.0, 30.8)),
                share=(90.38, 95.71), watts=((5.26, 0.40), (5.39, 0.27)), joules=((0.24, 0.05), (0.26, 0.04)),
            ),
        },
    }
)  # fmt: skip
"""Tables 1, 2, 4 and 5, by network and system.

The cells of table 2 are run together in the text: only three of five numbers are legible in each of Kapao's columns of
W and in its column of J outdoors, and four of five in AGRNav's. They are taken for those of DS, DS-C and HP, after
AGRNav's Local, in that order: W times the latency of table 1 is then J everywhere. The others are None."""

MEMORY_MB: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "Kapao": (300.6, 1782.5, 494.7),
        "AGRNav": (82.8, 713.3, 131.2),
        "RegNet": (207.5, 427.7, 258.9),
        "VGG19": (548.1, 668.7, 582.8),
        "ConvNeXt": (765.4, 1152.7, 789.8),
    }
)
"""Tables 3 and 6, MB: without a cache, with all of it, and with CacheInf's choice."""
