"""Pictures seen through a motion: warped, and compared block by block with a frame (CacheInf section 4.1)."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion, grid_shape

Image = NDArray[np.uint8]
_AROUND = np.ones((3, 3), np.uint8)


def warp(image: Image, motion: Motion, out: Image | None = None) -> Image:
    """The image as it looks after the motion; bilinear, black where it shows nothing."""
    height, width = image.shape[:2]
    return np.asarray(cv2.warpPerspective(image, motion.matrix, (width, height), dst=out), np.uint8)


def look_through(image: Image, motion: Motion) -> Image:
    """The opposite: a picture that the motion leads to this image; its border continued where that lies outside."""
    height, width = image.shape[:2]
    flags, border = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, cv2.BORDER_REPLICATE
    return np.asarray(
        cv2.warpPerspective(image, motion.matrix, (width, height), flags=flags, borderMode=border), np.uint8
    )


def visible_blocks(motion: Motion, image_size: tuple[int, int], block_size: int) -> NDArray[np.bool_]:
    """bool [rows, columns]: blocks of the frame of which the reference shows everything.

    A homography maps convex areas to convex ones: what holds for the corners of a block holds for the block.
    """
    height, width = image_size
    rows, columns = grid_shape(image_size, block_size)
    ends = (np.minimum(np.arange(n + 1) * block_size, side) for n, side in ((rows, height), (columns, width)))
    y, x = np.meshgrid(*ends, indexing="ij")
    # half a pixel inwards: the outermost pixels' centres
    points = np.stack([np.clip(x - 0.5, 0, width - 1), np.clip(y - 0.5, 0, height - 1), np.ones_like(x)], -1)
    moved = points @ motion.inverse().matrix.T
    with np.errstate(divide="ignore", invalid="ignore"):
        places = moved[..., :2] / moved[..., 2:]
    inside = (moved[..., 2] > 0) & (places > -0.5).all(-1) & (places < (width - 0.5, height - 0.5)).all(-1)
    return np.asarray(inside[:-1, :-1] & inside[:-1, 1:] & inside[1:, :-1] & inside[1:, 1:])


def pooled_difference(warped: Image, frame: Image, block_size: int) -> NDArray[np.float32]:
    """float32 [rows, columns]: how much each block of a frame differs from a warped picture, in grey levels.

    The mean over a quarter of the block (all of it, where its side is odd) of the absolute difference; of the quarters
    the largest, lest a small object drowns in its block. What lies between the values of a pixel's 3x3 neighbours
    counts as no difference: so much a resampled edge may deviate.
    """
    above = cv2.subtract(frame, cv2.dilate(warped, _AROUND))
    beyond = cv2.add(above, cv2.subtract(cv2.erode(warped, _AROUND), frame))  # one of the two is 0
    height, width = frame.shape[:2]
    rows, columns = grid_shape((height, width), block_size)
    parts = 2 if block_size % 2 == 0 else 1
    padded = cv2.copyMakeBorder(
        beyond, 0, rows * block_size - height, 0, columns * block_size - width, cv2.BORDER_REPLICATE
    )
    flat = padded.reshape(rows * block_size, -1)
    pooled = cv2.resize(flat, (columns * parts, rows * parts), interpolation=cv2.INTER_AREA).astype(np.float32)
    return np.asarray(pooled.reshape(rows, parts, columns, parts).max(axis=(1, 3)))
