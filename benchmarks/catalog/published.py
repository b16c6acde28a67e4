# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The numbers that MCDNN's text states (Han et al., MobiSys 2016), by table and figure.

The points and curves of its figures are not in the text: for each figure, only the numbers that it spells out are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.papers.stated import NO_NUMBERS, Stated

SPECIALISING_S: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "face (C0)": (2.6e4, 30.4, 4.3),
        "face (C4)": (1.4e4, 24.0, 4.2),
        "object (A0)": (4.8e5, 152.4, 14.2),
        "object (A9)": (9.1e4, 123.0, 14.1),
    }
)
"""Table 3: seconds to train all weights anew, to re-target, and to re-target on samples forwarded in advance."""

FIGURES: Mapping[int, Mapping[str, Stated]] = MappingProxyType(
    {
        4: {
            "times_less": Stated(
                quantity="VGGNet: memory for about 4 % less accuracy, almost so many times less",
                value=10.0,
                cited="section 5.1",
            ),
            "all": Stated(
                quantity="all tasks: memory with little loss of accuracy, times less",
                value=(4.0, 10.0),
                cited="section 6",
            ),
            "variants": Stated(quantity="variants of a task, least and most", value=(10.0, 68.0), cited="section 5.1"),
        },
        5: {
            "load_over_execute": Stated(
                quantity="energy of loading over that of executing, times", value=(2.0, 5.0), cited="section 5.1"
            ),
            "times_less": Stated(
                quantity="energy with little loss of accuracy, often at least so many times less",
                value=2.0,
                cited="section 6",
            ),
            "budget_j": Stated(
                quantity="line: J per event, five events a minute from a quarter of 2 Ah",
                value=2.3,
                cited="section 5.1",
            ),
            "lte_j": Stated(quantity="line: J to send a packet of 10 kB over LTE", value=0.9, cited="section 5.1"),
            "wifi_j": Stated(quantity="line: J to send a packet of 10 kB over WiFi", value=0.5, cited="section 5.1"),
        },
        6: {
            "times_faster_cloud": Stated(
                quantity="latency in the cloud, about so many times less", value=2.0, cited="section 6"
            ),
            "gpu_ms": Stated(
                quantity="line: ms per event on a GPU of the cloud, an event a second for $10 a year",
                value=9.7,
                cited="section 5.1",
            ),
        },
        10: {
            "specialised_mj": Stated(
                quantity="object recognition, specialised: mJ", value=(0.4, 0.7), cited="section 6.1"
            ),
            "generic_mj": Stated(
                quantity="object recognition, optimised alone: mJ", value=(7.0, 16.0), cited="section 6.1"
            ),
            "specialised_accuracy": Stated(
                quantity="object recognition, the least model specialised: accuracy, %",
                value=(70.0, 82.0),
                cited="section 6.1",
            ),
            "generic_accuracy": Stated(quantity="VGGNet: accuracy, %", value=69.0, cited="section 6.1"),
            "shared_mj": Stated(quantity="shared model: mJ, about", value=100.0, cited="section 6.1"),
            "shared_ms": Stated(quantity="shared model: ms, less than", value=1.0, cited="section 6.1"),
            "shared_times_less": Stated(
                quantity="shared model: energy and time, more than so many times less", value=100.0, cited="section 6.1"
            ),
        },
    }
)
NOTES: Mapping[int, str] = MappingProxyType(
    {
        4: f"{NO_NUMBERS} but these",
        5: f"{NO_NUMBERS} but these; ours are modelled",
        6: f"{NO_NUMBERS} but these; our cloud is modelled",
        10: f"{NO_NUMBERS} but these; ours are modelled from the time. Millijoules are the paper's, of which those of "
        "shared models do not fit the others",
        11: f"{NO_NUMBERS}: only that its cache has 600 MB, and ten traces of about 36000 requests a load rate",
        12: f"{NO_NUMBERS}: only that sending costs 0.1, 0.3 and 0.5 J, and that both policies do the same at 0.1 J",
        13: NO_NUMBERS,
    }
)
"""The note below the numbers of each figure."""
