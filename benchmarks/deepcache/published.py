# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The numbers that DeepCache's text states (Xu et al., MobiCom 2018), by table and figure.

The bars and curves of its figures are not in the text: for each figure, only the numbers that it spells out are here.
The paper calls the networks REC_1 (AlexNet), REC_2 (GoogLeNet), REC_3 (ResNet-50), DET (YOLO) and DRV (Dave).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from benchmarks.papers.stated import NO_NUMBERS, Stated

TIME_BY_TYPE: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = MappingProxyType(
    {
        "alexnet": ((79.2, 6.4, 11.1, 2.7, 0.6), (77.9, 7.1, 12.1, 1.8, 1.1)),
        "googlenet": ((80.2, 0.1, 7.5, 8.1, 4.3), (78.8, 0.7, 8.6, 9.3, 2.6)),
        "resnet50": ((91.8, 5.8, 0.5, 1.7, 0.2), (93.7, 4.9, 0.8, 0.4, 0.2)),
        "yolo": ((82.4, 12.8, 2.1, 1.8, 0.9), (84.1, 12.2, 2.6, 0.9, 0.2)),
        "dave": ((58.8, 28.6, 4.8, 2.9, 5.2), (62.7, 25.9, 5.8, 3.7, 1.9)),
    }
)
"""Table 1: per cent of the time by TensorFlow and by ncnn.

The columns are convolutions, fully connected layers, pooling, activations and the rest.
"""
CONVOLUTIONS: Mapping[str, int] = MappingProxyType(
    {"alexnet": 5, "googlenet": 57, "resnet50": 53, "yolo": 8, "dave": 5}
)
"""Table 3: the number of convolutions of each network."""
MATCHING: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "deepmon": (4.7, 0.7, 46.1),
        "exhaustive": (33.3, 13.16, 71.5),
        "three_step": (24.7, 9.41, 70.8),
        "diamond": (19.5, 6.53, 71.2),
        "diamond_optimised": (9.7, 2.55, 69.5),
    }
)
"""Table 4, by algorithm: milliseconds, the value after their sign ±, and the match ratio in per cent."""
PROPAGATED: tuple[tuple[int, int, int, int] | None, ...] = ((53, 53, 45, 15), None)
"""Figure 8 (section 5): (x, y, width, height) after the convolution; after the pooling the paper has no number."""

_ByKey: TypeAlias = Mapping[str, Stated]


def _saved(name: str, here: str, engine: str, per_cent: float, cited: str = "section 7.2") -> Stated:
    return Stated(quantity=f"{name} ({here}): time saved by {engine}, %", value=per_cent, cited=cited)


_FIGURE_10 = {
    "deepcache": Stated(quantity="mean over networks: time saved by DeepCache, %", value=18.2, cited="section 7.2"),
    "deepmon": Stated(quantity="mean over networks: time saved by DeepMon, %", value=8.9, cited="section 7.2"),
    "alexnet deepcache": _saved("REC_1", "AlexNet", "DeepCache", 28.1),
    "alexnet deepmon": _saved("REC_1", "AlexNet", "DeepMon", 13.1),
    "googlenet deepcache": _saved("REC_2", "GoogLeNet", "DeepCache", 19.7),
    "googlenet deepmon": _saved("REC_2", "GoogLeNet", "DeepMon", 10.2),
    "yolo deepcache": _saved("DET", "YOLO", "DeepCache", 14.2),
}
_FIGURE_11 = {
    "most": Stated(quantity="any network and clip: time saved by DeepCache, at most, %", value=47.1, cited="section 7"),
    "alexnet Billiards": _saved("REC_1 on Billiards", "AlexNet", "DeepCache", 47.1),
    "alexnet BandMarching": _saved("REC_1 on BandMarching", "AlexNet", "DeepCache", 11.0),
    "resnet50 Billiards": _saved("REC_3 on Billiards", "ResNet-50", "DeepCache", 38.7),
    "resnet50 BandMarching": _saved("REC_3 on BandMarching", "ResNet-50", "DeepCache", 3.8),
}
_FIGURE_12 = {
    "layer_ms": Stated(
        quantity="REC_2 (GoogLeNet), third convolution: ms without a cache", value=165.0, cited="section 7.2"
    ),
    "share": Stated(
        quantity="REC_2 (GoogLeNet), third convolution: of the whole network's time, about, %",
        value=18.4,
        cited="section 7.2",
    ),
    "saved_ms": Stated(
        quantity="REC_2 (GoogLeNet), third convolution: ms saved by DeepCache", value=90.2, cited="section 7.2"
    ),
}
_FIGURE_13 = {
    "top1": Stated(quantity="top-1 accuracy without a cache, about, %", value=62.8, cited="section 7.3"),
    "top3": Stated(quantity="top-3 accuracy without a cache, about, %", value=76.1, cited="section 7.3"),
    "top1 lost": Stated(quantity="top-1 accuracy lost by a cache, at most, points", value=3.0, cited="section 7.3"),
    "top3 lost": Stated(quantity="top-3 accuracy lost by a cache, at most, points", value=1.5, cited="section 7.3"),
}
_FIGURE_14 = {
    "yolo deepcache": Stated(quantity="DET (YOLO): median MSE of DeepCache", value=0.00166, cited="section 7.3"),
    "yolo deepmon": Stated(quantity="DET (YOLO): median MSE of DeepMon", value=0.00164, cited="section 7.3"),
    "dave deepcache": Stated(quantity="DRV (Dave): median MSE of DeepCache", value=2.617, cited="section 7.3"),
    "dave deepmon": Stated(quantity="DRV (Dave): median MSE of DeepMon", value=2.017, cited="section 7.3"),
}
_FIGURE_15 = {
    "deepcache": Stated(quantity="mean over networks: energy saved by DeepCache, %", value=19.7, cited="section 7.4"),
    "deepmon": Stated(quantity="mean over networks: energy saved by DeepMon, %", value=8.0, cited="section 7.4"),
    "most": Stated(
        quantity="any network: energy saved by DeepCache, at most (REC_1), %", value=28.6, cited="section 7.4"
    ),
    "resnet50 joules": Stated(quantity="REC_3 (ResNet-50): J saved on ten images", value=66.8, cited="section 7.4"),
}
_FIGURE_16 = {
    "no_cache_ms": Stated(quantity="REC_2 (GoogLeNet), ms without a cache", value=917.0, cited="section 7.5"),
    "ms": Stated(quantity="REC_2 (GoogLeNet), threshold 20: ms", value=748.0, cited="section 7.5"),
    "saved": Stated(quantity="REC_2 (GoogLeNet), threshold 20: time saved, %", value=18.3, cited="section 7.5"),
    "lost": Stated(
        quantity="REC_2 (GoogLeNet), threshold 20: top-1 accuracy lost, points", value=2.1, cited="section 7.5"
    ),
}
_FIGURE_17 = {
    "saved": Stated(
        quantity="REC_2 (GoogLeNet), blocks of one pixel (two here): time saved, %", value=2.19, cited="section 7.5"
    ),
    "lost": Stated(
        quantity="REC_2 (GoogLeNet), blocks of one pixel: top-1 accuracy lost, points", value=0.2, cited="section 7.5"
    ),
}
FIGURES: Mapping[int, _ByKey] = MappingProxyType(
    {
        4: {
            "fc": Stated(quantity="AlexNet, fully connected layers: % of the time", value=11.5, cited="section 2.2"),
            "earlier": Stated(
                quantity="AlexNet, the layers before them: % of the time", value=88.5, cited="section 2.2"
            ),
        },
        9: {
            "resnet50": Stated(
                quantity="ResNet-50: matching inner layers over matching frames, at most, times",
                value=35.0,
                cited="section 5",
            )
        },
        10: _FIGURE_10,
        11: _FIGURE_11,
        12: _FIGURE_12,
        13: _FIGURE_13,
        14: _FIGURE_14,
        15: _FIGURE_15,
        16: _FIGURE_16,
        17: _FIGURE_17,
        18: {
            "range": Stated(
                quantity="memory that the cache adds, MB, least and most", value=(2.5, 43.8), cited="section 7.7"
            )
        },
    }
)
_RANDOM = "the networks here have random weights, so that ours say nothing of accuracy"
NOTES: Mapping[int, str] = MappingProxyType(
    {
        4: f"{NO_NUMBERS} but these",
        9: f"{NO_NUMBERS} but this",
        10: f"{NO_NUMBERS} but these: ResNet-50's and Dave's savings are not told apart",
        11: f"{NO_NUMBERS} but these; ours beside Billiards and BandMarching need UCF101 (--data)",
        12: f"{NO_NUMBERS} but these",
        13: f"{NO_NUMBERS} but these; ours are the larger loss of the two caches",
        14: f"{NO_NUMBERS} but these; {_RANDOM}",
        15: f"{NO_NUMBERS} but these; the paper subtracts what an idle phone takes, ours are the meter's joules",
        16: f"{NO_NUMBERS} but these; {_RANDOM}",
        17: f"{NO_NUMBERS} but these; {_RANDOM}",
        18: f"{NO_NUMBERS} but these, for eight networks; ours are maps of convolutions only, without DeepFace's",
    }
)
"""The note below the numbers of each figure."""
