# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Raw image messages as a camera driver publishes them, built with ROS' own classes."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray


def image_message(header: Any, image: NDArray[np.uint8]) -> Any:
    """Return a raw image message: bgr8 for uint8 [height, width, 3], mono8 for uint8 [height, width]."""
    from sensor_msgs.msg import Image

    height, width = image.shape[:2]
    channels = image.shape[2] if image.ndim == 3 else 1
    return Image(
        header=header,
        height=height,
        width=width,
        encoding="bgr8" if channels == 3 else "mono8",
        step=width * channels,
        data=array("B", image.tobytes()),
    )


def thermal_message(grey: Any) -> Any:
    """Return the mono16 message of a mono8 message, as a camera would send it: 7000 and four for each level."""
    from sensor_msgs.msg import Image

    levels = np.frombuffer(grey.data, np.uint8).astype("<u2")
    return Image(
        header=grey.header,
        height=grey.height,
        width=grey.width,
        encoding="mono16",
        step=2 * grey.width,
        data=array("B", (7000 + 4 * levels).tobytes()),
    )
