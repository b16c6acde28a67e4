# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The networks of the benchmarks: trained ESPNet sees a road, and the untrained pose network depends on its image."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cacheinf_ros.engine import Preprocessor, decode
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.sources import open_source
from cacheinf_ros.sources.scenes import Gallery, load_photographs

NETWORKS = Path(__file__).parents[1] / "networks"


@torch.inference_mode()
def outputs_of(model: Model, image: np.ndarray) -> dict[str, np.ndarray]:
    result = model.module(torch.from_numpy(Preprocessor(model.card).input(image)))
    return {name: v.numpy() for name, v in (result if isinstance(result, dict) else {"output": result}).items()}


def test_espnet_sees_a_motorway(shared_data: Path) -> None:
    weights = shared_data / "models" / "espnet_p_2_q_8.safetensors"
    model = load_model(str(NETWORKS / "espnet.yaml"), weights=weights)
    frame = next(iter(open_source(str(shared_data / "clips" / "solidWhiteRight.mp4"))))
    class_map = decode(outputs_of(model, frame.image), model.card, frame.image.shape[:2]).class_map
    assert class_map is not None and class_map.shape == (512, 1024)
    labels = np.array(model.card.labels)[class_map]
    assert (labels[:160, :700] == "sky").mean() > 0.9  # upper left
    assert (labels[360:490, 256:768] == "road").mean() > 0.9  # before the car
    assert (labels[60:180, 880:1000] == "vegetation").mean() > 0.5  # the trees on the right, before the sky


def test_espnet_has_the_parameters_of_the_paper() -> None:
    model = load_model(str(NETWORKS / "espnet.yaml"), input_size=(64, 128))
    assert sum(p.numel() for p in model.module.parameters()) == 364_569  # 0.364 million (table 1)
    assert outputs_of(model, np.zeros((64, 128, 3), np.uint8))["output"].shape == (1, 20, 64, 128)


def test_weights_of_another_network_do_not_fit(shared_data: Path) -> None:
    with pytest.raises(ModelError, match="do not fit the model"):
        load_model("scenenet", weights=shared_data / "models" / "espnet_p_2_q_8.safetensors")


def test_pose_network_answers_to_its_image() -> None:
    model = load_model(str(NETWORKS / "pose.yaml"), input_size=(96, 128))
    assert 7e6 < sum(p.numel() for p in model.module.parameters()) < 7.5e6
    first, second = (outputs_of(model, photograph) for photograph in load_photographs(Gallery.TEST)[:2])
    assert [value.shape for value in first.values()] == [(1, 171, 12, 16), (1, 171, 6, 8), (1, 171, 3, 4)]
    for a, b in zip(first.values(), second.values(), strict=True):
        assert 0.1 < a.std() < 10
        assert (a - b).std() > 0.3 * a.std()
