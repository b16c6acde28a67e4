# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Class maps that somebody drew for a folder's pictures: one PNG file of class numbers each, in a folder "labels"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import SourceError

_FOLDER = "labels"
_PNG = b"\x89PNG"
_KIND = slice(24, 26)  # where a PNG file says how many bits a value has, and what it is
_NUMBERS = (b"\x08\x00", *(bytes([bits, 3]) for bits in (1, 2, 4, 8)))  # grey with 8 bits, and palettes


def has_label_maps(folder: Path) -> bool:
    """Tell whether there is a class map for any of a folder's pictures; other labels are called so, too."""
    return any((folder / _FOLDER).glob("*.png"))


def read_label_map(picture: Path) -> NDArray[np.uint8] | None:
    """Read the class map of a picture: labels/NAME.png beside it, grey or with a palette whose numbers count.

    Returns:
        the number of each pixel's class, uint8 [height, width], as it was drawn; None: there is no map.

    Raises:
        SourceError: the file is no PNG file of class numbers.
    """
    from PIL import Image  # here: few folders have maps

    path = picture.parent / _FOLDER / f"{picture.stem}.png"
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            head = file.read(_KIND.stop)
        if head.startswith(_PNG) and len(head) == _KIND.stop and head[_KIND] not in _NUMBERS:
            raise SourceError(
                f"{path} is no map of class numbers: neither grey with 8 bits, nor with a palette; "
                "export masks as class indices"
            )
        with Image.open(path, formats=["PNG"]) as found:
            return np.array(found, np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SourceError(f"{path} cannot be read: {error}; export it anew, or remove it") from None
