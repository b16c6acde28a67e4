# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Encoding of changed pixels of the model's input: one bit each, and an image of the blocks in which they lie.

Compressed as an image, losslessly or not, a changed block takes a fraction of its bytes. Blocks that lie apart are put
together into a mosaic; where most of the picture has changed, it is sent as it is.
"""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Pixels
from cacheinf_ros.errors import MessageError
from cacheinf_ros.offload.protocol.frames import WireImage
from cacheinf_ros.offload.protocol.inflate import inflated
from cacheinf_ros.sources import decode_picture

BLOCK = 16
"""The side of a block in pixels: a multiple of the blocks that JPEG compresses together."""
_WHOLE = 0.5  # share of the blocks from which on the picture is sent as it is
_HEADER = struct.Struct("<IIBI")  # first row, last row, whether as a mosaic, bytes of the bits
_FAST = [cv2.IMWRITE_PNG_COMPRESSION, 1]

Mask = NDArray[np.uint8]
Image = NDArray[np.uint8]


def encode_pixels(pixels: Pixels, wire: WireImage, quality: int) -> bytes:
    """Encode pixels; ``quality`` is that of JPEG, 1 to 100."""
    rows, mask, image = pixels.rows, pixels.mask, pixels.image
    bits = zlib.compress(np.packbits(mask, axis=None).tobytes(), 1)
    if not mask.any():
        return _HEADER.pack(*rows, 0, len(bits)) + bits
    blocks = _blocks_of(mask)
    is_mosaic = blocks.mean() < _WHOLE
    picture = _mosaic(image, blocks) if is_mosaic else image
    options = _FAST if wire is WireImage.PNG else [cv2.IMWRITE_JPEG_QUALITY, quality]
    _, data = cv2.imencode(f".{wire.value}", picture, options)
    return _HEADER.pack(*rows, int(is_mosaic), len(bits)) + bits + data.tobytes()


def decode_pixels(data: bytes, height: int, width: int) -> Pixels:
    """Decode pixels of an input of ``height`` x ``width`` pixels, as :func:`encode_pixels` writes them.

    Raises:
        MessageError: the bytes are no pixels of such an input.
    """
    if len(data) < _HEADER.size:
        raise MessageError(f"pixels of {len(data)} bytes are cut off")
    first, last, is_mosaic, bit_bytes = _HEADER.unpack_from(data)
    if not first <= last <= height:
        raise MessageError(f"pixels of rows {first} to {last} came for an input of {height} rows")
    mask = _unpacked(data[_HEADER.size : _HEADER.size + bit_bytes], last - first, width)
    whole = last - first, width
    if not mask.any():
        return Pixels(rows=(first, last), mask=mask, image=np.zeros((*whole, 3), np.uint8))
    blocks = _blocks_of(mask)
    size = _mosaic_shape(int(blocks.sum())) if is_mosaic else whole
    image = decode_picture(data[_HEADER.size + bit_bytes :], size)
    return Pixels(rows=(first, last), mask=mask, image=_spread(image, blocks, whole) if is_mosaic else image)


def _unpacked(bits: bytes, rows: int, width: int) -> Mask:
    plain = inflated(bits, -(-rows * width // 8), "the bits of pixels")
    return np.unpackbits(np.frombuffer(plain, np.uint8), count=rows * width).reshape(rows, width)


def _blocks_of(mask: Mask) -> NDArray[np.bool_]:
    """Return which blocks hold changed pixels, bool [ceil(rows / BLOCK), ceil(width / BLOCK)]."""
    below, beside = -mask.shape[0] % BLOCK, -mask.shape[1] % BLOCK
    padded = cv2.copyMakeBorder(mask, 0, below, 0, beside, cv2.BORDER_CONSTANT, value=0)
    shape = padded.shape[0] // BLOCK, BLOCK, padded.shape[1] // BLOCK, BLOCK
    return np.asarray(padded.reshape(shape).any(axis=(1, 3)), np.bool_)


def _mosaic_shape(blocks: int) -> tuple[int, int]:
    """Return the (height, width) of a nearly square mosaic of ``blocks`` blocks."""
    across = int(np.ceil(np.sqrt(blocks)))
    return -(-blocks // across) * BLOCK, across * BLOCK


def _tiles(image: Image) -> Image:
    """Copy the blocks of an image, its border continued: uint8 [block rows, block columns, BLOCK, BLOCK, 3]."""
    below, beside = -image.shape[0] % BLOCK, -image.shape[1] % BLOCK
    padded = np.asarray(cv2.copyMakeBorder(image, 0, below, 0, beside, cv2.BORDER_REPLICATE), np.uint8)
    rows, columns = padded.shape[0] // BLOCK, padded.shape[1] // BLOCK
    return padded.reshape(rows, BLOCK, columns, BLOCK, 3).transpose(0, 2, 1, 3, 4)


def _mosaic(image: Image, blocks: NDArray[np.bool_]) -> Image:
    tiles = _tiles(image)[blocks]
    height, width = _mosaic_shape(len(tiles))
    missing = height * width // BLOCK**2 - len(tiles)
    tiles = np.concatenate([tiles, np.repeat(tiles[-1:], missing, axis=0)])
    grid = tiles.reshape(height // BLOCK, width // BLOCK, BLOCK, BLOCK, 3)
    return np.ascontiguousarray(grid.transpose(0, 2, 1, 3, 4).reshape(height, width, 3))


def _spread(mosaic: Image, blocks: NDArray[np.bool_], size: tuple[int, int]) -> Image:
    """Put the blocks of a mosaic back in their places, black elsewhere; the inverse of :func:`_mosaic`."""
    rows, columns = blocks.shape
    tiles = np.zeros((rows, columns, BLOCK, BLOCK, 3), np.uint8)
    tiles[blocks] = _tiles(mosaic).reshape(-1, BLOCK, BLOCK, 3)[: int(blocks.sum())]
    whole = tiles.transpose(0, 2, 1, 3, 4).reshape(rows * BLOCK, columns * BLOCK, 3)
    return np.ascontiguousarray(whole[: size[0], : size[1]])
