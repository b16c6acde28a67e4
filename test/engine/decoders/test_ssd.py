# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of decoding boxes relative to priors, with numbers worked out by hand and boxes that are encoded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decoders.ssd import decode_ssd, prior_boxes
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.graph.decoder_configs import SsdBoxes

SIZE = (240, 320)
TWO_HEADS = SsdBoxes(strides=(8, 16), min_boxes=((10, 20), (40,)))


def silence(decoder, size, classes=2):
    count = len(prior_boxes(decoder, size))
    scores = np.zeros((1, count, classes), np.float32)
    scores[..., 0] = 1
    return np.zeros((1, count, 4), np.float32), scores


def test_priors_of_the_face_detector():
    priors = prior_boxes(SsdBoxes(), SIZE)
    assert priors.shape == (4420, 4)  # as many as RFB-320 has outputs
    assert priors[:3].tolist() == [[4, 4, 10, 10], [4, 4, 16, 16], [4, 4, 24, 24]]
    assert priors[3].tolist() == [12, 4, 10, 10]
    # 240 / 64 is no whole number: the last head's rows divide the image evenly; 256 pixels do not fit into its height
    assert priors[-1].tolist() == [288, 210, 256, 240]


def test_worked_example():
    offsets, scores = silence(TWO_HEADS, (16, 16))
    # the last prior: centre (8, 8), side cut to 16 pixels
    offsets[0, -1] = [1.0, -2.0, np.log(2) / 0.2, 0.0]
    scores[0, -1] = [0.25, 0.75]
    boxes, found, classes = decode_ssd(offsets, scores, TWO_HEADS, (16, 16))
    # centre (8 + 0.1 * 16, 8 - 0.2 * 16), size (32, 16)
    assert np.allclose(boxes, [[9.6 - 16, 4.8 - 8, 32, 16]], atol=1e-5)
    assert found.tolist() == [0.75] and classes.tolist() == [1]


def test_logits_where_the_card_says_so():
    offsets, scores = silence(TWO_HEADS, (16, 16))
    scores[:] = [5.0, 0.0]
    scores[0, 0] = [0.0, 1.0]
    decoder = TWO_HEADS.changed(softmax=True)
    assert np.allclose(decode_ssd(offsets, scores, decoder, (16, 16))[1], [1 / (1 + np.exp(-1))])


@given(st.integers(0, 4419), st.integers(0, 99))
def test_a_box_that_is_written_in_is_read_back(index: int, seed: int) -> None:
    decoder, rng = SsdBoxes(), np.random.default_rng(seed)
    centre, size = rng.uniform(0, 240, 2), rng.uniform(5, 200, 2)
    prior = prior_boxes(decoder, SIZE)[index]
    offsets, scores = silence(decoder, SIZE)
    offsets[0, index, :2] = (centre - prior[:2]) / prior[2:] / 0.1
    offsets[0, index, 2:] = np.log(size / prior[2:]) / 0.2
    scores[0, index] = [0.1, 0.9]
    boxes, _, _ = decode_ssd(offsets, scores, decoder, SIZE)
    assert np.allclose(boxes, [[*(centre - size / 2), *size]], rtol=1e-3, atol=1e-2)


def test_other_numbers_of_boxes_are_refused():
    offsets, scores = silence(SsdBoxes(), SIZE)
    with pytest.raises(ValueError, match="has 4420 priors"):
        decode_ssd(offsets[:, 1:], scores[:, 1:], SsdBoxes(), SIZE)
    with pytest.raises(ConfigError, match="one per head"):
        SsdBoxes.checked(strides=(8,))
