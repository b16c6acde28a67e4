# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The size of a model's images: what its file fixes and what the user asks for must agree."""

from __future__ import annotations

from cacheinf_ros.errors import ModelError


def agreed_size(
    what: str, fixed: tuple[int, int], wanted: tuple[int, int] | None, pictures: int = 1
) -> tuple[int, int]:
    """Return the (height, width) of a model's frames.

    Args:
        what: the model, as the error names it.
        fixed: (height, width) that the model takes; 0: open.
        wanted: (height, width) that the user asks for, if any.
        pictures: how many pictures of one size a frame shows side by side.

    Raises:
        ModelError: the user asks for another size, or for none where it is open, or pictures would not be of one size.
    """
    size = _agreed_size(what, fixed, wanted)
    if size[1] % pictures:
        raise ModelError(
            f"{what}: a frame of {size} shows no {pictures} pictures of one size: choose {divisible(pictures)}"
        )
    return size


def divisible(pictures: int) -> str:
    """Say which widths show so many pictures of one size side by side."""
    return "an even width" if pictures == 2 else f"a width that {pictures} divides"


def _agreed_size(what: str, fixed: tuple[int, int], wanted: tuple[int, int] | None) -> tuple[int, int]:
    if wanted is None:
        if all(fixed):
            return fixed
        raise ModelError(
            f"{what} leaves its image size open: give one, --size HEIGHTxWIDTH on the command line, "
            "-p input_size:=HEIGHTxWIDTH to a node, or input_size: HEIGHTxWIDTH in a model card"
        )
    height, width = wanted
    if (fixed[0] or height, fixed[1] or width) != (height, width):
        taken = str(fixed) if all(fixed) else "x".join(str(side) if side else "?" for side in fixed)
        raise ModelError(
            f"{what} takes images of {taken}, not {(height, width)}: leave the size out (--size, or input_size of the "
            "node or the card), or export the model anew for it"
        )
    return height, width
