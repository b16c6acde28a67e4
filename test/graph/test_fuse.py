# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which operators are fused, and which must not be."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from networks.lowered import assert_same_function, graph_of
from networks.random_blocks import Call, batch_norm
from programs import change
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import DenseGraph
from cacheinf_ros.graph.activation import ActivationKind
from cacheinf_ros.graph.ir import ChannelNorm, Concat, Conv, Elementwise, GlobalMean, Graph

SIZE = (11, 14)


def fused(function: Callable[..., Tensor], *parts: nn.Module, size: tuple[int, int] = SIZE) -> Graph:
    torch.manual_seed(0)
    module = Call(function, *parts).eval()
    graph = graph_of(module, size)
    assert_same_function(graph, module, size)
    return graph


def kinds(graph: Graph) -> list[type]:
    return [type(operator) for operator in graph.operators]


def conv(inputs: int = 3, outputs: int = 4, kernel: int = 3, **options: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, **options)


def test_batch_norm_and_activation() -> None:
    graph = fused(lambda x, c, n, a: a(n(c(x))), conv(), batch_norm(4), nn.PReLU(4))
    (only,) = graph.operators
    assert isinstance(only, Conv) and only.activation.kind is ActivationKind.PRELU


@pytest.mark.parametrize(
    ("function", "last"),
    [
        (lambda x, c, n: torch.relu(x + n(c(x))), False),
        (lambda x, c, n: torch.relu(n(c(x)) + x), False),
        (lambda x, c, n: torch.relu(n(c(x))) + x, True),
        (lambda x, c, n: x + functional.silu(n(c(x))), True),
        (lambda x, c, n: x + n(c(x)), False),
    ],
)
def test_residual(function: Callable[..., Tensor], last: bool) -> None:
    (only,) = fused(function, conv(3, 3), batch_norm(3)).operators
    assert isinstance(only, Conv) and len(only.inputs) == 2 and only.residual_last == last


def test_no_place_for_two_activations_around_a_residual() -> None:
    assert kinds(fused(lambda x, c: torch.sigmoid(torch.relu(c(x)) + x), conv(3, 3))) == [Conv, Elementwise]


def test_a_batch_norm_behind_a_residual_stays() -> None:
    graph = fused(lambda x, c, n: n(c(x) + x), conv(3, 3), batch_norm(3))
    assert kinds(graph) == [Conv, Elementwise]


def test_a_sum_with_one_pixel_is_no_residual() -> None:
    graph = fused(lambda x, c: c(x) + x.mean((2, 3), keepdim=True), conv(3, 3))
    assert set(kinds(graph)) == {Conv, GlobalMean, Elementwise}
    assert all(len(o.inputs) == 1 for o in graph.operators if isinstance(o, Conv))


def test_a_convolution_of_one_pixel_is_not_given_a_map_as_residual() -> None:
    graph = fused(lambda x, c: x + c(x.mean((2, 3), keepdim=True)), conv(3, 3, 1))
    assert kinds(graph) == [GlobalMean, Conv, Elementwise]


def test_a_convolution_that_somebody_else_reads_stays_as_it_is() -> None:
    def function(x: Tensor, c: nn.Module) -> Tensor:
        y = c(x)
        return torch.cat([torch.relu(y), y], 1)

    assert kinds(fused(function, conv())) == [Conv, Elementwise, Concat]


@pytest.mark.parametrize("bias, kernel", [(False, 3), (True, 1)])
def test_colours_become_grey_in_the_next_convolution(bias: bool, kernel: int) -> None:
    mix = nn.Conv2d(3, 1, 1, bias=bias)
    (only,) = fused(lambda x, m, c: torch.relu(c(m(x))), mix, conv(1, 4, kernel)).operators
    assert isinstance(only, Conv) and only.weight.shape == (4, 3, kernel, kernel)


@pytest.mark.parametrize(
    ("function", "mix"),
    [
        (lambda x, m, c: c(m(x)), nn.Conv2d(3, 1, 1)),  # its bias would have to surround the picture, too
        (lambda x, m, c: c(torch.relu(m(x))), nn.Conv2d(3, 1, 1, bias=False)),
        (lambda x, m, c: c(m(x)), nn.Conv2d(3, 1, 3, padding=1, bias=False)),
        (lambda x, m, c: c(m(x)), nn.Conv2d(3, 2, 1, bias=False)),
        (lambda x, m, c: c(m(torch.relu(x))), nn.Conv2d(3, 1, 1, bias=False)),
    ],
)
def test_other_first_layers_stay(function: Callable[..., Tensor], mix: nn.Conv2d) -> None:
    channels = mix.out_channels
    graph = fused(function, mix, conv(channels))
    assert [len(each.weight) for each in graph.operators if isinstance(each, Conv)] == [channels, 4]


def test_grey_that_somebody_else_reads_stays() -> None:
    def function(x: Tensor, m: nn.Module, c: nn.Module) -> Tensor:
        grey = m(x)
        return torch.cat([c(grey), grey], 1)

    assert kinds(fused(function, nn.Conv2d(3, 1, 1, bias=False), conv(1))) == [Conv, Conv, Concat]


def test_an_output_is_read_by_the_user() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv()

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = self.conv(x)
            return y, torch.relu(y)

    module = Two().eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert kinds(graph) == [Conv, Elementwise]


@pytest.mark.parametrize(
    ("gate", "kind"), [(torch.sigmoid, ActivationKind.SILU), (functional.hardsigmoid, ActivationKind.HARDSWISH)]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_gates_of_their_own_input(gate: Callable[[Tensor], Tensor], kind: ActivationKind, swapped: bool) -> None:
    (only,) = fused(
        lambda x, c: (gate(y) * y if swapped else y * gate(y)) if (y := c(x)) is not None else y, conv()
    ).operators
    assert isinstance(only, Conv) and only.activation.kind is kind


WRITTEN_OUT: dict[str, tuple[Callable[[Tensor], Tensor], ActivationKind]] = {
    "hard swish, divided last": (lambda y: y * torch.clamp(y + 3, 0, 6) / 6, ActivationKind.HARDSWISH),
    "hard swish, divided first": (lambda y: functional.relu6(y + 3) / 6 * y, ActivationKind.HARDSWISH),
    "hard swish, sixths": (lambda y: y * torch.clamp(y * 0.1666667 + 0.5, 0, 1), ActivationKind.HARDSWISH),
    "mish": (lambda y: y * torch.tanh(functional.softplus(y)), ActivationKind.MISH),
    "gelu": (lambda y: y * (1 + torch.erf(y / 2**0.5)) * 0.5, ActivationKind.GELU),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_activations_that_are_written_out(name: str) -> None:
    activation, kind = WRITTEN_OUT[name]
    (only,) = fused(lambda x, c: activation(4 * c(x)), conv()).operators
    assert isinstance(only, Conv) and only.activation.kind is kind


@pytest.mark.parametrize(
    "activation",
    [
        lambda y: y * torch.clamp(y + 3, 0, 5) / 6,
        lambda y: y * torch.clamp(y + 2, 0, 6) / 6,
        lambda y: y * torch.clamp(y * 0.17 + 0.5, 0, 1),
        lambda y: y * (2 + torch.erf(y / 2**0.5)) * 0.5,
        lambda y: y * (1 + torch.erf(y)) * 0.5,
        lambda y: y * torch.tanh(functional.softplus(y) * 2),
        lambda y: y * torch.clamp(y.flip(1) + 3, 0, 6) / 6,
    ],
)
def test_what_only_resembles_a_written_out_activation_stays(activation: Callable[[Tensor], Tensor]) -> None:
    assert len(fused(lambda x, c: activation(4 * c(x)), conv()).operators) > 1


def test_a_gate_that_is_read_elsewhere_stays_too() -> None:
    def function(x: Tensor, c: nn.Module) -> Tensor:
        y = c(x)
        gates = torch.clamp(y + 3, 0, 6)
        return torch.cat([y * gates / 6, gates], 1)

    assert ActivationKind.HARDSWISH not in {getattr(o, "activation", None) for o in fused(function, conv()).operators}


def test_a_hard_swish_of_another_scale_keeps_it() -> None:
    (only, scaled) = fused(lambda x, c: (y := c(x)) * functional.relu6(y + 3), conv()).operators
    assert isinstance(only, Conv) and only.activation.kind is ActivationKind.HARDSWISH
    assert isinstance(scaled, Elementwise) and scaled.scale is not None and scaled.scale.tolist() == [6.0] * 4


@pytest.mark.parametrize(
    "activation",
    [lambda y: y * functional.relu6(y + 3), lambda y: y * (1 + torch.erf(y / 2**0.5))],
    ids=["hard swish", "gelu"],
)
def test_a_factor_that_nothing_absorbs_is_a_float(activation: Callable[[Tensor], Tensor]) -> None:
    """The factors 6 and 2 were whole numbers, which compiled kernels read as floats: outputs were 0."""
    graph = fused(lambda x, c: (y := activation(c(x))) + y.flip(3), conv())
    factors = [o.scale for o in graph.operators if isinstance(o, Elementwise) and o.scale is not None]
    assert factors and {factor.dtype for factor in factors} == {torch.float32}
    image = torch.randn(*SIZE, 3)
    program = Program(graph, choose_backend("cpu", 1))
    change(program, image, np.ones(SIZE, np.uint8))
    (ours,) = program.execute(refresh=True).values()
    (exact,) = DenseGraph(graph)(image.permute(2, 0, 1)[None]).values()
    assert torch.allclose(ours, exact, atol=1e-4) and float(exact.abs().max()) > 0.1


class Focus(nn.Module):
    """Puts the pixels of each 2x2 block side by side, as YOLOX does, and convolves them."""

    def __init__(self, starts: list[tuple[int, int]], *, step: int = 1) -> None:
        super().__init__()
        self.starts = starts
        self.conv = nn.Conv2d(3 * len(starts), 5, 3, step, 1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(self.conv(torch.cat([x[..., y::2, x0::2] for y, x0 in self.starts], 1)))


BLOCK = [(0, 0), (1, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize("step", [1, 2])
def test_blocks_side_by_side_are_a_larger_window(step: int) -> None:
    """Four copies of a quarter of the picture were made for it."""
    graph = fused(lambda x, f: f(x), Focus(BLOCK, step=step), size=(12, 14))
    (only,) = graph.operators
    assert isinstance(only, Conv) and tuple(only.weight.shape) == (5, 3, 6, 6) and only.inputs == (graph.input,)
    assert (only.window.stride, only.window.padding) == ((2 * step, 2 * step), (2, 2))


@pytest.mark.parametrize(
    ("starts", "size"), [(BLOCK[:3], (12, 14)), ([*BLOCK[:3], (0, 0)], (12, 14)), ([(0, 0)] * 4, (11, 14))]
)
def test_other_parts_of_blocks_stay(starts: list[tuple[int, int]], size: tuple[int, int]) -> None:
    assert len(fused(lambda x, f: f(x), Focus(starts), size=size).operators) > 1


def test_a_hard_sigmoid_that_is_written_out() -> None:
    for last in (lambda y: functional.relu6(y + 3) / 6, lambda y: torch.clamp(y / 6 + 0.5, 0, 1)):
        graph = fused(lambda x, c, last=last: torch.cat([last(y := c(x).flip(1)), y], 1), conv())
        found = [o for o in graph.operators if isinstance(o, Elementwise)]
        assert [o.activation.kind for o in found] == [ActivationKind.HARDSIGMOID]


def test_sum_scale_shift_and_activation_are_one_operator() -> None:
    graph = fused(lambda x, n, a: a(n(x + x.flip(1))), batch_norm(3), nn.PReLU(3))
    assert kinds(graph)[-1] is Elementwise and len(graph.operators) == 2


def test_a_scale_after_a_layer_norm_moves_into_it() -> None:
    def function(x: Tensor, norm: nn.Module) -> Tensor:
        return torch.relu(norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) * 2 + 1)

    assert kinds(fused(function, nn.LayerNorm(3))) == [ChannelNorm, Elementwise]
    assert kinds(fused(lambda x, n: n(x.permute(0, 2, 3, 1)) * 2, nn.LayerNorm(3)))[0] is ChannelNorm


@pytest.mark.parametrize(
    ("padding", "shift", "expected"), [(0, 0.5, 1), (1, 0.5, 2), (1, 0.0, 1)], ids=["inside", "border", "scale only"]
)
def test_a_scale_before_a_convolution(padding: int, shift: float, expected: int) -> None:
    layer = nn.Conv2d(3, 6, 3, padding=padding, groups=3)
    graph = fused(lambda x, c: c(x * 2 + shift) if shift else c(x * 2), layer)
    assert len(graph.operators) == expected


def test_what_nobody_reads_ends() -> None:
    def function(x: Tensor, a: nn.Module, b: nn.Module) -> Tensor:
        return torch.cat([a(x), b(x)], 1)[:, :4]

    (only,) = fused(function, conv(), conv()).operators
    assert isinstance(only, Conv)


def test_channels_that_nobody_reads_are_not_computed() -> None:
    graph = fused(lambda x, c, a: a(c(x))[:, [5, 1]], conv(3, 8), nn.PReLU(8))
    (only,) = graph.operators
    assert isinstance(only, Conv) and only.weight.shape[0] == 2


def test_growing_concatenations_share_their_beginning() -> None:
    """Concatenations can then share memory, as in DenseNet."""

    def function(x: Tensor, a: nn.Module, b: nn.Module) -> Tensor:
        first = a(x)
        second = b(torch.cat([x, first], 1))
        return torch.cat([x, first, second], 1)

    graph = fused(function, conv(3, 4), conv(7, 4))
    concats = [o for o in graph.operators if isinstance(o, Concat)]
    assert len(concats) == 2 and concats[1].inputs[0] == concats[0].output


def test_equal_concatenations_are_one() -> None:
    def function(x: Tensor, a: nn.Module, b: nn.Module) -> Tensor:
        return a(torch.cat([x, x], 1)) - b(torch.cat([x, x], 1))

    graph = fused(function, conv(6, 4), conv(6, 4))
    assert kinds(graph) == [Concat, Conv, Conv, Elementwise]
