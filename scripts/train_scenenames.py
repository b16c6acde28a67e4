# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Train scenenames on built-in scenes and write its weights beside its model card.

    python scripts/train_scenenames.py [--steps 600] [--threads 2] [--output FILE]

About 75 s of training on two idle cores, and some more of measuring.
Held out are scenes with other seeds: other windows of the same photographs, other
objects before them, other brightness, noise and motion. The same number of threads on the same machine gives the same
weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from training import Progress

from cacheinf_ros.catalog.build.training import one_cycle
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.graph import read_card
from cacheinf_ros.graph.scenenames import scenenames
from cacheinf_ros.sources.scenes import PHOTOGRAPHS, MotionPreset, Scene, SceneConfig

CARD = Path(__file__).resolve().parents[1] / "cacheinf_ros" / "graph" / "cards" / "scenenames.yaml"
SIZES = ((240, 320), (360, 480), (480, 640))
BATCH = 16
SCENES_PER_PHOTOGRAPH = 2
STEPS_PER_SCENE = 4
LEARNING_RATE = 4e-3
CROP = (176, 240)


def training_scene(photograph: str, rng: np.random.Generator) -> Scene:
    """A scene of one photograph; test seeds are small, so these are never among them."""
    return Scene(
        SceneConfig(
            preset=rng.choice(np.array(list(MotionPreset))),
            seed=int(rng.integers(1_000_000, 2**31)),
            size=SIZES[rng.integers(len(SIZES))],
            objects=int(rng.integers(0, 12)),
            noise=float(rng.uniform(0, 8)),
            drift=float(rng.uniform(0, 0.5)),
            frames=3000,
            photograph=photograph,
        )
    )


def batches(steps: int, rng: np.random.Generator, preprocessor: Preprocessor) -> Iterator[tuple[Tensor, Tensor]]:
    """(images [batch, 3, h, w], classes [batch]): cut from frames of a slowly changing pool of scenes."""
    owners = [i % len(PHOTOGRAPHS) for i in range(SCENES_PER_PHOTOGRAPH * len(PHOTOGRAPHS))]
    pool = [training_scene(PHOTOGRAPHS[owner], rng) for owner in owners]
    for step in range(steps):
        if step % STEPS_PER_SCENE == 0:
            renewed = (step // STEPS_PER_SCENE) % len(pool)
            pool[renewed] = training_scene(PHOTOGRAPHS[owners[renewed]], rng)
        chosen = rng.permutation(len(pool))[:BATCH]
        images = [cut(pool[index], rng, preprocessor) for index in chosen]
        yield torch.cat(images), torch.tensor([owners[index] for index in chosen])


def cut(scene: Scene, rng: np.random.Generator, preprocessor: Preprocessor) -> Tensor:
    """float32 [1, 3, CROP]: a part of a random frame, mirrored half of the time."""
    image = scene.frame(int(rng.integers(scene.config.frames))).image
    whole = preprocessor.input(image if rng.random() < 0.5 else np.asarray(cv2.flip(image, 1), np.uint8))
    top, left = (int(rng.integers(0, side - part + 1)) for side, part in zip(whole.shape[2:], CROP, strict=True))
    return torch.from_numpy(whole[:, :, top : top + CROP[0], left : left + CROP[1]])


def train(steps: int, preprocessor: Preprocessor) -> nn.Module:
    """On freshly made frames."""
    frames = batches(steps, np.random.default_rng(0), preprocessor)
    return one_cycle(
        scenenames(),
        frames,
        nn.functional.cross_entropy,
        steps=steps,
        learning_rate=LEARNING_RATE,
        report=Progress(steps),
    )


@torch.no_grad()
def accuracy(model: nn.Module, preset: MotionPreset, size: tuple[int, int], preprocessor: Preprocessor) -> float:
    """Share of right answers over frames of unseen scenes, as many of each photograph."""
    right = []
    for number, photograph in enumerate(PHOTOGRAPHS):
        for seed in (1, 2):
            scene = Scene(SceneConfig(preset=preset, seed=seed, size=size, photograph=photograph, frames=100))
            for index in (0, 33, 66, 99):
                image = torch.from_numpy(preprocessor.input(scene.frame(index).image))
                right.append(int(model(image).argmax()) == number)
    return float(np.mean(right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600, help=f"batches of {BATCH} pictures")
    parser.add_argument("--threads", type=int, default=2, help="processor threads")
    parser.add_argument("--output", type=Path, default=CARD.with_suffix(".safetensors"), help="file of the weights")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    preprocessor = Preprocessor(read_card(CARD))
    model = train(options.steps, preprocessor)
    # plain layout: safetensors refuses channels_last, and counters of batches serve training only
    kept = {k: v.contiguous() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    save_file(kept, options.output)
    options.output.chmod(0o644)  # safetensors makes it private
    print(f"wrote {options.output} ({options.output.stat().st_size / 1e6:.2f} MB)")
    for preset in MotionPreset:
        found = (f"{size[0]}x{size[1]} {accuracy(model, preset, size, preprocessor):.3f}" for size in SIZES)
        print(f"{preset.value:9s} top-1 " + "  ".join(found))


if __name__ == "__main__":
    main()
