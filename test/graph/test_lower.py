# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Each family of operators by itself: the graph computes what torch does, with the expected operators."""

from collections.abc import Callable

import pytest
import torch
from networks.lowered import assert_same_function, graph_of
from networks.random_blocks import Call, batch_norm
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.fuse import fuse
from cacheinf_ros.graph.ir import Global, Graph
from cacheinf_ros.graph.lower import lower

SIZE = (13, 18)


def kinds(graph: Graph) -> set[str]:
    return {type(operator).__name__ for operator in graph.operators}


def checked(function: Callable[..., Tensor], *parts: nn.Module, size: tuple[int, int] = SIZE) -> Graph:
    torch.manual_seed(0)
    module = Call(function, *parts).eval()
    graph = graph_of(module, size)
    assert_same_function(graph, module, size)
    assert graph.unknown == ()
    return graph


def conv(outputs: int = 6, kernel: int = 3, **options: int) -> nn.Conv2d:
    return nn.Conv2d(3, outputs, kernel, **options)


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.4, 0.7), nn.LeakyReLU(0.2), nn.PReLU(), nn.PReLU(6), nn.Sigmoid(),
        nn.Tanh(), nn.SiLU(), nn.Hardsigmoid(), nn.Hardswish(), nn.GELU(), nn.GELU(approximate="tanh"), nn.ELU(0.5),
        nn.Mish(), nn.Softplus(), nn.RReLU(),
    ],
    ids=str,
)  # fmt: skip
def test_an_activation_becomes_part_of_the_convolution(layer: nn.Module) -> None:
    assert kinds(checked(lambda x, c, act: act(c(x)), conv(), layer)) == {"Conv"}


@pytest.mark.parametrize(
    "function",
    [
        nn.Softplus(beta=3), nn.CELU(0.5), nn.CELU(), nn.SELU(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(),
        nn.Threshold(0.1, 0.2), nn.GLU(1), torch.exp, torch.abs, torch.erf, torch.square, torch.neg,
        lambda x: x.clamp(min=-0.1), lambda x: x.clamp(max=0.2), lambda x: x.clamp(-0.3, 0.3), lambda x: x**2,
        lambda x: x**3, lambda x: (x.abs() + 0.1) ** 0.5, lambda x: (x.abs() + 0.1).rsqrt(), functional.normalize,
        nn.LocalResponseNorm(3, alpha=0.5), nn.LocalResponseNorm(4, alpha=0.5, beta=0.5, k=2.0),
        lambda x: functional.pad(x, (0, 0, 0, 0, 1, 2), value=0.5),
    ],
    ids=lambda function: getattr(function, "__name__", str(function)),  # an address differs from process to process
)  # fmt: skip
def test_other_functions_of_one_value_are_local(function: Callable[[Tensor], Tensor]) -> None:
    graph = checked(lambda x, c: function(c(x)), conv())
    assert kinds(graph) <= {"Conv", "Elementwise", "Pointwise", "Select"}


VECTOR = torch.linspace(0.5, 1.5, 6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1, lambda x: 1 - x, lambda x: x / 3, lambda x: 2 / (x + 5), lambda x: torch.add(x, 2, alpha=3),
        lambda x: torch.rsub(x, 2, alpha=0.5), lambda x: x * VECTOR.view(6, 1, 1),
        lambda x: VECTOR.view(1, 6, 1, 1) - x, lambda x: x - VECTOR.view(6, 1, 1) * 2,
        lambda x: x / VECTOR.view(6, 1, 1),
        lambda x: (x.permute(0, 2, 3, 1) * VECTOR).permute(0, 3, 1, 2),
        lambda x: (x.view(1, 2, 3, *SIZE) * VECTOR[:2].view(1, 2, 1, 1, 1)).flatten(1, 2),
        lambda x: torch.maximum(x, torch.tensor(0.1)), lambda x: torch.minimum(torch.tensor(0.1), x),
    ],
)  # fmt: skip
def test_constants_become_part_of_the_convolution(function: Callable[[Tensor], Tensor]) -> None:
    graph = checked(lambda x, c: function(c(x)), conv(padding=1))
    assert kinds(graph) <= {"Conv", "Pointwise", "Elementwise"}
    assert len(graph.operators) <= 3


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: x - y, 3), (lambda x, y: x * y, 3), (lambda x, y: x / (y + 9), 3),
        (lambda x, y: torch.maximum(x, y), 3), (lambda x, y: torch.sub(x, y, alpha=0.5), 3),
        (lambda x, y: x + y, 2), (lambda x, y: torch.relu(x + y), 2), (lambda x, y: x + torch.relu(y), 2),
        (lambda x, y: torch.addcmul(x, x, y, value=0.5), 5),
    ],
)  # fmt: skip
def test_two_maps(function: Callable[[Tensor, Tensor], Tensor], expected: int) -> None:
    graph = checked(lambda x, a, b: function(a(x), b(x)), conv(), conv())
    assert kinds(graph) <= {"Conv", "Elementwise"}
    assert len(graph.operators) <= expected


def mean(x: Tensor) -> Tensor:
    return x.mean((2, 3), keepdim=True)


@pytest.mark.parametrize(
    ("function", "resampled"),
    [
        (lambda x: x * mean(x), 0), (lambda x: mean(x) * x, 0), (lambda x: x - mean(x), 0),
        (lambda x: mean(x) - x, 0), (lambda x: x / (mean(x) + 9), 0), (lambda x: mean(x) / (x + 9), 1),
        (lambda x: x + mean(x)[:, :1], 0), (lambda x: x * x.mean((2, 3))[:, :, None, None], 0),
        (lambda x: x * x[:, :1], 0), (lambda x: x[:, :1] - x, 0), (lambda x: x * mean(x).expand_as(x), 0),
        (lambda x: torch.maximum(mean(x), x), 0),
        (lambda x: x.mean(3, keepdim=True) * x.mean(2, keepdim=True), 4),
    ],
)  # fmt: skip
def test_broadcasting(function: Callable[[Tensor], Tensor], resampled: int) -> None:
    graph = checked(lambda x, c: function(c(x)), conv())
    assert kinds(graph) <= {"Conv", "GlobalMean", "Elementwise", "Select", "Resample"}
    assert sum(type(o).__name__ == "Resample" for o in graph.operators) == resampled


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.mean((2, 3)), {"GlobalMean"}),
        (lambda x: x.sum((2, 3), keepdim=True), {"GlobalMean", "Elementwise"}),
        (lambda x: x.permute(0, 2, 3, 1).mean((1, 2)), {"GlobalMean"}),
        (lambda x: x.flatten(2).mean(2), {"GlobalMean"}),
        (lambda x: x.amax((2, 3)), {"Pool"}),
        (lambda x: x.amin((2, 3), keepdim=True), {"Elementwise", "Pool"}),
        (lambda x: x.mean(1, keepdim=True), set()),
        (lambda x: x.sum(1, keepdim=True), set()),
        (lambda x: x.amax(1, keepdim=True), {"Pointwise"}),
        (lambda x: x.max(1, keepdim=True)[0], {"Pointwise"}),
        (lambda x: x.logsumexp(1, keepdim=True), {"Pointwise"}),
        (lambda x: x.std(1, keepdim=True), {"Pointwise"}),
        (lambda x: x.var(1, unbiased=False, keepdim=True), {"Pointwise"}),
        (lambda x: x.norm(dim=1, keepdim=True), {"Pointwise"}),
        (lambda x: x.mean(3, keepdim=True), {"Resample"}),
        (lambda x: x.sum(2, keepdim=True), {"Resample"}),
    ],
)
def test_reductions(function: Callable[[Tensor], Tensor], expected: set[str]) -> None:
    assert kinds(checked(lambda x, c: function(c(x)), conv())) == {"Conv", *expected}


def channels_last(x: Tensor, layer: Callable[[Tensor], Tensor]) -> Tensor:
    return layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("layer", "function", "expected"),
    [
        (batch_norm(6), lambda x, n: n(x), set()),
        (nn.LayerNorm(6), channels_last, {"ChannelNorm"}),
        (nn.RMSNorm(6), channels_last, {"Pointwise"}),
        (nn.Linear(6, 4), channels_last, set()),
        (nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 6)), channels_last, set()),
        (nn.GroupNorm(2, 6), lambda x, n: n(x), {"Global"}),
        (nn.InstanceNorm2d(6, affine=True), lambda x, n: n(x), {"Global"}),
        (nn.InstanceNorm2d(6, track_running_stats=True), lambda x, n: n(x), set()),
        (nn.Softmax(1), lambda x, n: n(x), {"ChannelSoftmax"}),
        (nn.LogSoftmax(1), lambda x, n: n(x), {"ChannelSoftmax"}),
        (nn.Softmax(-1), channels_last, {"ChannelSoftmax"}),
        (nn.Softmax(3), lambda x, n: n(x.permute(0, 3, 2, 1)).permute(0, 3, 2, 1), {"ChannelSoftmax"}),
        (nn.Softmax(1), lambda x, n: n(x.flatten(2)).view(x.shape), {"ChannelSoftmax"}),
        (nn.Softmax(2), lambda x, n: n(x), {"Global"}),
    ],
)
def test_functions_of_channels(layer: nn.Module, function: Callable[..., Tensor], expected: set[str]) -> None:
    assert kinds(checked(lambda x, c, n: function(c(x), n), conv(padding=1), layer)) == {"Conv", *expected}


@pytest.mark.parametrize(
    ("function", "parts", "convolutions"),
    [
        (lambda x, a: a(x.flatten(1)), (nn.Linear(3 * 13 * 18, 5),), 1),
        (lambda x, a: a(x.permute(0, 2, 3, 1).reshape(1, -1)), (nn.Linear(3 * 13 * 18, 5),), 1),
        (lambda x, a, b: b(torch.relu(a(x.flatten(1)))), (nn.Linear(702, 5), nn.Linear(5, 4)), 2),
        (lambda x, a: a(x.mean((2, 3))).softmax(1), (nn.Linear(3, 5),), 1),
        (lambda x, a: x.flatten(1) @ a.weight.t() + a.bias, (nn.Linear(702, 5),), 1),
        (lambda x, a: torch.addmm(a.bias, x.flatten(1), a.weight.t()), (nn.Linear(702, 5),), 1),
        (lambda x, a: a(x.flatten(2).transpose(1, 2)).transpose(1, 2), (nn.Linear(3, 5),), 1),
        (lambda x, a, n: n(a(x.flatten(1))), (nn.Linear(702, 5), nn.BatchNorm1d(5)), 1),
        (lambda x, a: a(x[:, :, 2, 3]), (nn.Linear(3, 5),), 1),
    ],
)
def test_linear_layers(function: Callable[..., Tensor], parts: tuple[nn.Module, ...], convolutions: int) -> None:
    graph = checked(function, *parts)
    assert kinds(graph) <= {"Conv", "GlobalMean", "ChannelSoftmax", "Resample", "Global"}
    assert sum(type(o).__name__ == "Conv" for o in graph.operators) == convolutions
    assert sum(isinstance(o, Global) for o in graph.operators) == (
        graph.tensors[graph.outputs[0][1]].shape == (1, 5, 234)
    )


def test_a_vector_as_a_map() -> None:
    graph = checked(lambda x, c: x[:, :, :2, :3] * c(x).mean((2, 3)).view(1, 1, 2, 3), conv())
    assert "Global" in kinds(graph)


def test_flattened_vectors_are_no_operator() -> None:
    graph = checked(lambda x, c: torch.flatten(functional.adaptive_avg_pool2d(c(x), 1), 1), conv())
    assert kinds(graph) == {"Conv", "GlobalMean"}
    assert graph.tensors[graph.outputs[0][1]].shape == (1, 6)


def test_identities_are_no_operators() -> None:
    graph = checked(
        lambda x, c, d: d(c(x)).clone().contiguous().detach().float().to(torch.float32), conv(), nn.Dropout2d()
    )
    assert kinds(graph) == {"Conv"}


def test_what_depends_on_shapes_alone_is_constant() -> None:
    graph = checked(lambda x, c: (y := c(x)) + torch.ones_like(y) * y.new_full((1,), 2.0), conv())
    assert kinds(graph) == {"Conv"}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.einsum("bchw,bdhw->bcd", x, x),
        lambda x: functional.scaled_dot_product_attention(*[x.flatten(2).transpose(1, 2)] * 3),
        lambda x: x.argmax(1),
        lambda x: functional.conv2d(x, x.mean((2, 3)).view(1, 6, 1, 1)),
        lambda x: functional.batch_norm(x, *x.flatten(2).sort(2)[0][0, :, :2].t().abs()),
        lambda x: x.flatten(2).sort(2)[0],
        lambda x: x.flatten(2).topk(3, 2)[1],
        lambda x: x.softmax(1).flatten(2).cumsum(2),
        lambda x: (x @ x.transpose(2, 3)).mean(),
    ],
)
def test_what_is_global_by_its_nature_warns_of_nothing(function: Callable[[Tensor], Tensor]) -> None:
    assert "Global" in kinds(checked(lambda x, c: function(c(x)), conv()))


def test_what_nobody_classified_is_named() -> None:
    module = Call(lambda x, c: torch.linalg.matrix_exp(c(x)), conv()).eval()
    graph = graph_of(module, (12, 12))
    assert graph.unknown == ("aten.linalg_matrix_exp.default",)


def test_constants_that_differ_from_pixel_to_pixel_are_global() -> None:
    position = torch.randn(1, 6, 11, 16)
    graph = checked(lambda x, c: torch.relu(c(x) + position), conv())
    assert kinds(graph) == {"Conv", "Elementwise", "Global"}


def test_a_tensor_of_another_type_is_not_computed_locally() -> None:
    graph = checked(lambda x, c: c(x).argmax(1, keepdim=True) + 1, conv())
    assert kinds(graph) == {"Conv", "Global"}


def test_one_output_seen_as_vector_and_as_map() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            pooled = x.mean((2, 3), keepdim=True)
            return {"map": pooled, "vector": pooled.flatten(1), "again": pooled.squeeze(-1)}

    graph = graph_of(Both(), SIZE)
    assert_same_function(graph, Both(), SIZE)
    assert [graph.tensors[tensor].shape for _, tensor in graph.outputs] == [(1, 3, 1, 1), (1, 3), (1, 3, 1)]


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (3, 8, 8), (1, 1, 8, 8), (1, 4, 8, 8), (1, 3)])
def test_other_inputs_are_refused(shape: tuple[int, ...]) -> None:
    program = torch.export.export(nn.ReLU(), (torch.zeros(shape),)).run_decompositions({})
    with pytest.raises(ModelError, match=r"must take one image \[1, 3, height, width\], not"):
        fuse(lower(program))
