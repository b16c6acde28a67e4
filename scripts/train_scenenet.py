# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Train scenenet on built-in scenes and write its weights beside its model card.

    python scripts/train_scenenet.py [--steps 1400] [--threads 2] [--output FILE]

About ten minutes on two cores. The photographs are those of the training gallery; the figures printed at the end are
from scenes of the test gallery. The same number of threads on the same machine gives the same weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn
from training import Progress

from cacheinf_ros.catalog.build.training import one_cycle
from cacheinf_ros.engine.accuracy import Detections, DetectionScore, score_frame
from cacheinf_ros.engine.decoders.centers import decode_centers
from cacheinf_ros.graph.scenenet import scenenet
from cacheinf_ros.sources.scenes import (
    OBJECT_LABELS,
    Gallery,
    MotionPreset,
    Scene,
    SceneConfig,
    SceneObject,
)

CARDS = Path(__file__).resolve().parents[1] / "cacheinf_ros" / "graph" / "cards"
STRIDE = 8
CROP = 160
BATCH = 16
SCENES_IN_POOL = 12
STEPS_PER_SCENE = 5
LEARNING_RATE = 4e-3
SCORE_THRESHOLD = 0.4
MEAN, STD = 0.45, 0.25
CLASSES = len(OBJECT_LABELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the network should say about a crop: float32 arrays with the output's height and width."""

    heat: NDArray[np.float32]  # [classes, h, w], 1 at a centre, falling off around it
    place: NDArray[np.float32]  # [4, h, w], offset and log size
    is_centre: NDArray[np.float32]  # [1, h, w]


def training_scene(rng: np.random.Generator) -> Scene:
    """A crowded scene of the training gallery; test seeds are small, so these are never among them."""
    return Scene(
        SceneConfig(
            preset=rng.choice(np.array(list(MotionPreset))),
            seed=int(rng.integers(1_000_000, 2**31)),
            objects=22,
            noise=float(rng.uniform(0, 5)),
            drift=float(rng.uniform(0, 0.4)),
            frames=3000,
            gallery=Gallery.TRAIN,
        )
    )


def batches(steps: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """(images, heat, place, is_centre), each [batch, ...]: crops from a slowly changing pool of scenes."""
    pool = [training_scene(rng) for _ in range(SCENES_IN_POOL)]
    for step in range(steps):
        if step % STEPS_PER_SCENE == 0:
            pool[(step // STEPS_PER_SCENE) % SCENES_IN_POOL] = training_scene(rng)
        crops = [crop for _ in range(BATCH // 4) for crop in random_crops(pool[rng.integers(len(pool))], 4, rng)]
        images = torch.cat([to_input(image) for image, _ in crops])
        targets = [target for _, target in crops]
        yield (
            images,
            torch.from_numpy(np.stack([target.heat for target in targets])),
            torch.from_numpy(np.stack([target.place for target in targets])),
            torch.from_numpy(np.stack([target.is_centre for target in targets])),
        )


def random_crops(scene: Scene, count: int, rng: np.random.Generator) -> list[tuple[NDArray[np.uint8], Target]]:
    """Squares of a random frame of the scene, half of them mirrored."""
    index = int(rng.integers(1, scene.config.frames))
    image, objects = scene.frame(index).image, scene.truth(index).objects
    crops = []
    for _ in range(count):
        top, left = (int(rng.integers(0, side - CROP + 1)) for side in image.shape[:2])
        boxes = np.array([(o.x - left, o.y - top, o.width, o.height) for o in objects], np.float32).reshape(-1, 4)
        crop = image[top : top + CROP, left : left + CROP]
        if rng.random() < 0.5:
            crop = crop[:, ::-1]
            boxes[:, 0] = CROP - boxes[:, 0] - boxes[:, 2]
        crops.append((crop, target_of(boxes, objects)))
    return crops


def target_of(boxes: NDArray[np.float32], objects: tuple[SceneObject, ...]) -> Target:
    """Each object whose centre lies in the crop leaves a round hill on its class's heat map (CenterNet, section 3)."""
    cells = CROP // STRIDE
    y, x = np.mgrid[:cells, :cells]
    target = Target(
        heat=np.zeros((CLASSES, cells, cells), np.float32),
        place=np.zeros((4, cells, cells), np.float32),
        is_centre=np.zeros((1, cells, cells), np.float32),
    )
    for box, found in zip(boxes, objects, strict=True):
        centre = (box[:2] + box[2:] / 2) / STRIDE
        column, row = np.floor(centre).astype(int)
        if not (0 <= column < cells and 0 <= row < cells):
            continue
        spread = float(box[2:].min()) / STRIDE / 6
        hill = np.exp(-((x - column) ** 2 + (y - row) ** 2) / (2 * spread**2))
        target.heat[found.class_id] = np.maximum(target.heat[found.class_id], hill)
        target.place[:, row, column] = [*(centre - (column, row)), *np.log(box[2:] / STRIDE)]
        target.is_centre[0, row, column] = 1
    return target


def to_input(image: NDArray[np.uint8]) -> Tensor:
    """float32 [1, 3, height, width] from BGR, as the model card says."""
    rgb = np.ascontiguousarray(image[:, :, ::-1].transpose(2, 0, 1))[None]
    return (torch.from_numpy(rgb).float() / 255 - MEAN) / STD


def loss_of(output: Tensor, heat: Tensor, place: Tensor, is_centre: Tensor) -> Tensor:
    """Focal loss of the heat maps (CenterNet equation 1) and absolute error of offset and size at the centres."""
    logits = output[:, :CLASSES]
    score = torch.sigmoid(logits)
    peak = (heat == 1).float()
    miss = -nn.functional.logsigmoid(logits) * (1 - score) ** 2 * peak
    false_alarm = -nn.functional.logsigmoid(-logits) * score**2 * (1 - heat) ** 4 * (1 - peak)
    count = is_centre.sum().clamp(min=1)
    return (miss.sum() + false_alarm.sum() + ((output[:, CLASSES:] - place).abs() * is_centre).sum()) / count


def train(steps: int) -> nn.Module:
    """On freshly made crops."""
    crops = batches(steps, np.random.default_rng(0))
    return one_cycle(
        scenenet(), crops, loss_of, steps=steps, learning_rate=LEARNING_RATE, steepest=10.0, report=Progress(steps)
    )


@torch.no_grad()
def evaluate(model: nn.Module, preset: MotionPreset, seeds: range) -> DetectionScore:
    """Every tenth frame of unseen scenes against the truth."""
    total = DetectionScore()
    for seed in seeds:
        scene = Scene(SceneConfig(preset=preset, seed=seed, frames=100))
        for index in range(0, 100, 10):
            output = model(to_input(scene.frame(index).image)).numpy()
            boxes, scores, classes = decode_centers(output, stride=STRIDE, score_threshold=SCORE_THRESHOLD)
            found = Detections(boxes=boxes, scores=scores, classes=classes)
            total += score_frame(found, Detections.of_truth(scene.truth(index)))
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1400, help="batches of 16 crops of 160 x 160 pixels")
    parser.add_argument("--threads", type=int, default=2, help="processor threads")
    parser.add_argument("--output", type=Path, default=CARDS / "scenenet.safetensors", help="file of the weights")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = train(options.steps)
    # plain layout: safetensors refuses channels_last, and counters of batches serve training only
    kept = {k: v.contiguous() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    save_file(kept, options.output)
    options.output.chmod(0o644)  # safetensors makes it private
    print(f"wrote {options.output} ({options.output.stat().st_size / 1e6:.2f} MB)")
    for preset in MotionPreset:
        score = evaluate(model, preset, range(1, 6))
        print(f"{preset.value:9s} F1 {score.f1:.3f}  precision {score.precision:.3f}  recall {score.recall:.3f}")


if __name__ == "__main__":
    main()
