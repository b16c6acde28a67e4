"""Receptive fields: the paper's example, and brute force."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.graph.window import Window, reusable_interval, reusable_rectangles


def test_worked_example_of_deepcache() -> None:
    """DeepCache section 4.3: kernel 11, stride 2, padding 5 turns (100, 100, 100, 40) into (53, 53, 45, 15)."""
    window = Window(in_size=(227, 227), out_size=(114, 114), kernel=(11, 11), stride=(2, 2), padding=(5, 5))
    rectangles = reusable_rectangles(np.array([[100, 100, 100, 40]]), window, padding_is_reusable=False)
    assert rectangles.tolist() == [[53, 53, 45, 15]]


@given(
    size=st.integers(4, 30),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.integers(0, 3),
    span=st.tuples(st.integers(0, 29), st.integers(0, 29)),
    padding_is_reusable=st.booleans(),
)
def test_interval_is_exact(
    size: int,
    kernel: int,
    stride: int,
    dilation: int,
    padding: int,
    span: tuple[int, int],
    padding_is_reusable: bool,
) -> None:
    out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if out < 1 or padding > kernel // 2:
        return
    first, last = min(span) % size, max(span) % size
    first, last = min(first, last), max(first, last)
    window = Window(
        in_size=(size, size), out_size=(out, out), kernel=(kernel,) * 2, stride=(stride,) * 2,
        dilation=(dilation,) * 2, padding=(padding,) * 2,
    )  # fmt: skip
    start, length = reusable_interval(
        np.array([first]), np.array([last - first + 1]), window, 0, padding_is_reusable=padding_is_reusable
    )

    def reusable(pixel: int) -> bool:
        if 0 <= pixel < size:
            return first <= pixel <= last
        return padding_is_reusable and (first == 0 if pixel < 0 else last == size - 1)

    expected = [o for o in range(out) if all(reusable(o * stride - padding + k * dilation) for k in range(kernel))]
    assert list(range(start[0], start[0] + length[0])) == expected
