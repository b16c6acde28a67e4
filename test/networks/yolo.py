# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks with the exported shapes and operators of YOLOv5, v8, v11 and YOLOX, and their ONNX files.

Written from the papers and the exported graphs: they have the originals' outputs and operators (SiLU, SPPF, attention
in v11, the distribution focal loss's softmax, anchors, strides), but narrow random layers, and fewer of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from benchmarks.gpu.yolo_shape import C2f, Pyramid, conv

STRIDES = (8, 16, 32)
_BINS = 16
_ANCHORS = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))


class Attention(nn.Module):
    """The attention block of v11, in which each pixel of the coarsest level attends to all others."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.qkv, self.project = conv(channels, 2 * channels), conv(channels, channels)
        self.place = nn.Conv2d(channels, channels, 3, 1, 1, groups=channels)
        self.keys = channels // 2

    def forward(self, x: Tensor) -> Tensor:
        _, channels, height, width = x.shape
        qkv = self.qkv(x).view(1, 1, 2 * channels, height * width)
        q, k, v = qkv.split([self.keys, self.keys, channels], dim=2)
        weights = ((q.transpose(-2, -1) @ k) * self.keys**-0.5).softmax(dim=-1)
        seen = (v @ weights.transpose(-2, -1)).view(1, channels, height, width)
        return x + self.project(seen + self.place(v.reshape(1, channels, height, width)))


class Body(nn.Module):
    """A feature pyramid at strides 8, 16 and 32, whose fine levels also read the coarse ones."""

    def __init__(self, width: int, *, attends: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, width, 3, 2), conv(width, width, 3, 2), C2f(width, width, 1, adds=True))
        self.down = nn.ModuleList(
            nn.Sequential(conv(width, width, 3, 2), C2f(width, width, 1, adds=True)) for _ in STRIDES
        )
        self.wide = nn.Sequential(Pyramid(width), Attention(width) if attends else nn.Identity())
        self.up = nn.ModuleList(C2f(2 * width, width, 1, adds=True) for _ in STRIDES[1:])
        self.enlarge = nn.Upsample(scale_factor=2)

    def forward(self, image: Tensor) -> list[Tensor]:
        levels = []
        x = self.stem(image)
        for down in self.down:
            x = down(x)
            levels.append(x)
        levels[-1] = self.wide(levels[-1])
        for level, up in zip((1, 0), self.up, strict=True):
            levels[level] = up(torch.cat([self.enlarge(levels[level + 1]), levels[level]], 1))
        return levels


def _grid(levels: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the cells' corners [2, n], in cells, and their strides [1, n]."""
    corners, strides = [], []
    for level, stride in zip(levels, STRIDES, strict=True):
        height, width = level.shape[2:]
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        corners.append(torch.stack([x.flatten(), y.flatten()]).float())
        strides.append(torch.full((1, height * width), float(stride)))
    return torch.cat(corners, 1), torch.cat(strides, 1)


class Prototypes(nn.Module):
    def __init__(self, width: int, masks: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            conv(width, width, 3), nn.ConvTranspose2d(width, width, 2, 2), conv(width, width, 3), conv(width, masks)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Yolo8(nn.Module):
    """The outputs of v8, or of v11 with attention: boxes [1, 4 + classes + extra, n]; with masks also prototypes."""

    def __init__(self, classes: int = 80, width: int = 16, *, masks: int = 0, key_points: int = 0, v11: bool = False):
        super().__init__()
        self.body = Body(width, attends=v11)
        self.classes, self.masks, self.key_points = classes, masks, key_points
        extra = masks or 3 * key_points
        self.boxes = nn.ModuleList(
            nn.Sequential(conv(width, width, 3), nn.Conv2d(width, 4 * _BINS, 1)) for _ in STRIDES
        )
        self.scores = nn.ModuleList(nn.Sequential(conv(width, width, 3), nn.Conv2d(width, classes, 1)) for _ in STRIDES)
        self.extra = nn.ModuleList(nn.Conv2d(width, extra, 1) for _ in STRIDES) if extra else None
        self.prototypes = Prototypes(width, masks) if masks else None
        self.bins = nn.Conv2d(_BINS, 1, 1, bias=False)
        self.bins.weight.data[:] = torch.arange(_BINS).float().view(1, _BINS, 1, 1)

    def forward(self, image: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        levels = self.body(image)
        corners, strides = _grid(levels)
        both = [torch.cat([b(x), s(x)], 1) for b, s, x in zip(self.boxes, self.scores, levels, strict=True)]
        boxes, scores = torch.cat([x.flatten(2) for x in both], 2).split((4 * _BINS, self.classes), 1)
        n = boxes.shape[2]
        sides = self.bins(boxes.view(1, 4, _BINS, n).transpose(2, 1).softmax(1)).view(1, 4, n)
        before, behind = sides.chunk(2, 1)
        first, last = corners + 0.5 - before, corners + 0.5 + behind
        parts = [torch.cat([(first + last) / 2, last - first], 1) * strides, scores.sigmoid()]
        if self.extra is not None:
            extra = torch.cat([e(x).flatten(2) for e, x in zip(self.extra, levels, strict=True)], 2)
            parts.append(self._points(extra, corners, strides) if self.key_points else extra)
        output = torch.cat(parts, 1)
        return output if self.prototypes is None else (output, self.prototypes(levels[0]))

    def _points(self, values: Tensor, corners: Tensor, strides: Tensor) -> Tensor:
        points = values.view(1, self.key_points, 3, -1)
        places = (points[:, :, :2] * 2.0 + corners) * strides
        return torch.cat([places, points[:, :, 2:3].sigmoid()], 2).view(1, 3 * self.key_points, -1)


class Yolo5(nn.Module):
    """The outputs of v5: boxes [1, 3 n, 5 + classes + masks], relative to anchors inside and decoded at the end."""

    def __init__(self, classes: int = 80, width: int = 16, *, masks: int = 0) -> None:
        super().__init__()
        self.body = Body(width, attends=False)
        self.values = (2, 2, 1 + classes, masks)
        self.heads = nn.ModuleList(nn.Conv2d(width, 3 * sum(self.values), 1) for _ in STRIDES)
        self.prototypes = Prototypes(width, masks) if masks else None

    def forward(self, image: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        levels, outputs = self.body(image), []
        for level, head, stride, anchors in zip(levels, self.heads, STRIDES, _ANCHORS, strict=True):
            height, width = level.shape[2:]
            x = head(level).view(1, 3, sum(self.values), height, width).permute(0, 1, 3, 4, 2).contiguous()
            rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
            grid = torch.stack([columns, rows], 2).float().expand(1, 3, height, width, 2) - 0.5
            sizes = torch.tensor(anchors).float().view(1, 3, 1, 1, 2).expand(1, 3, height, width, 2)
            places, sides, scores, masks = x.split(self.values, 4)
            places = (places.sigmoid() * 2 + grid) * stride
            y = torch.cat([places, (sides.sigmoid() * 2) ** 2 * sizes, scores.sigmoid(), masks], 4)
            outputs.append(y.view(1, -1, sum(self.values)))
        output = torch.cat(outputs, 1)
        return output if self.prototypes is None else (output, self.prototypes(levels[0]))


class YoloX(nn.Module):
    """The outputs of YOLOX as exported: [1, n, 5 + classes], with boxes in cells and logarithms of cells."""

    def __init__(self, classes: int = 80, width: int = 16) -> None:
        super().__init__()
        self.body = Body(width, attends=False)
        self.heads = nn.ModuleList(nn.ModuleList(nn.Conv2d(width, c, 1) for c in (4, 1, classes)) for _ in STRIDES)

    def forward(self, image: Tensor) -> Tensor:
        outputs = []
        for level, (box, score, classes) in zip(self.body(image), self.heads, strict=True):
            outputs.append(torch.cat([box(level), score(level).sigmoid(), classes(level).sigmoid()], 1))
        return torch.cat([x.flatten(2) for x in outputs], 2).permute(0, 2, 1)


class NanoDetPlus(nn.Module):
    """The outputs of NanoDet-Plus as exported: [1, n, classes + 4 * 8] of four levels, scores first."""

    def __init__(self, classes: int = 80, width: int = 16) -> None:
        super().__init__()
        self.body, self.coarser = Body(width, attends=False), conv(width, width, 3, 2)
        self.heads, self.classes = nn.ModuleList(nn.Conv2d(width, classes + 32, 1) for _ in range(4)), classes

    def forward(self, image: Tensor) -> Tensor:
        levels = self.body(image)
        outputs = []
        for level, head in zip([*levels, self.coarser(levels[-1])], self.heads, strict=True):
            scores, sides = head(level).split([self.classes, 32], 1)
            outputs.append(torch.cat([scores.sigmoid(), sides], 1).flatten(2))
        return torch.cat(outputs, 2).permute(0, 2, 1)


class PicoDet(nn.Module):
    """The outputs of PicoDet as exported: scores [1, n, classes] of four levels, then [1, n, 4 * 8] of each."""

    def __init__(self, classes: int = 80, width: int = 16) -> None:
        super().__init__()
        self.body, self.coarser = Body(width, attends=False), conv(width, width, 3, 2)
        self.scores, self.sides = (
            nn.ModuleList(nn.Conv2d(width, channels, 1) for _ in range(4)) for channels in (classes, 32)
        )

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        levels = self.body(image)
        levels = [*levels, self.coarser(levels[-1])]
        outputs = [head(level).sigmoid() for level, head in zip(levels, self.scores, strict=True)]
        outputs += [head(level) for level, head in zip(levels, self.sides, strict=True)]
        return tuple(output.flatten(2).permute(0, 2, 1) for output in outputs)


class FaceHeads(nn.Module):
    """The outputs of YuNet, or with two anchors of SCRFD: [1, n, values] or [n, values] of each grid."""

    def __init__(
        self, width: int = 16, *, anchors: int = 1, widths: tuple[int, ...] = (1, 1, 4, 10), batch: bool = True
    ):
        super().__init__()
        self.body, self.widths, self.batch = Body(width, attends=False), widths, batch
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width, anchors * values, 1) for _ in range(3)) for values in widths
        )

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        levels, outputs = self.body(image), []
        for values, heads in zip(self.widths, self.heads, strict=True):
            for level, head in zip(levels, heads, strict=True):
                rows = head(level).permute(0, 2, 3, 1).reshape(*((1, -1) if self.batch else (-1,)), values)
                outputs.append(rows.sigmoid() if values == 1 else rows)
        return tuple(outputs)


class QueryHead(nn.Module):
    """A network with outputs like DETR's: a fixed number of answers about the whole image."""

    def __init__(self, queries: int = 100, classes: int = 92) -> None:
        super().__init__()
        self.queries, self.features = queries, nn.Conv2d(3, 8, 3, 8, 1)
        self.logits, self.boxes = nn.Linear(8, queries * classes), nn.Linear(8, queries * 4)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.features(image).mean((2, 3))
        logits, boxes = (layer(x).view(1, self.queries, -1) for layer in (self.logits, self.boxes))
        return logits, boxes.sigmoid()


def lively(module: nn.Module, seed: int = 0) -> nn.Module:
    """Give each batch norm other statistics, so that random weights let the image through to every output."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1, generator=generator)
            layer.running_var.uniform_(0.1, 0.4, generator=generator)
    return module.eval()


def exported(
    module: nn.Module, path: Path, size: tuple[int, int], output_names: Sequence[str] = (), **metadata: str
) -> Path:
    """Write the module's ONNX file, as ultralytics and others do."""
    image = torch.zeros(1, 3, *size)
    outputs = module(image)
    count = len(outputs) if isinstance(outputs, tuple) else 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (image,), path, dynamo=False, opset_version=12, input_names=["images"],
            output_names=list(output_names) or [f"output{i}" for i in range(count)],
        )  # fmt: skip
    if metadata:
        model = onnx.load(path)
        onnx.helper.set_model_props(model, metadata)
        onnx.save(model, path)
    return path
