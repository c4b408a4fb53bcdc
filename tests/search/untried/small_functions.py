"""Small functions of every kind, in shapes that rules find hard, and their check in a process of its own."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import te, topi

from tests.search.scheduled import build_quickly
from tunefarm_search.tvm.target import canonical_target, tvm_target
from tunefarm_search.tvm.workload import workload_of
from tunefarm_search.untried.untried_schedule import untried_schedule

EXTENTS = (1, 2, 3, 7, 13, 16, 17, 28, 49, 64)


def _input(name: str, *shape: int) -> Any:
    return te.placeholder(shape, "float32", name=name)


def softmax(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.nn.softmax(x, axis=-1)]


def softmax_of_channels(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, 3, k)
    return [x, topi.nn.softmax(x, axis=1)]


def softmax_of_padded_rows(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    wide = topi.nn.pad(x, [0, 0, 0], [0, 0, 5], -math.inf)
    return [x, topi.strided_slice(topi.nn.softmax(wide, axis=-1), [0, 0, 0], [n, m, k], [1, 1, 1])]


def group_norm(n: int, m: int, k: int) -> list[Any]:
    x, scale, shift = _input("x", n, 6, m, k), _input("scale", 6), _input("shift", 6)
    return [x, scale, shift, topi.nn.group_norm(x, scale, shift, 3, 1, [2, 3], 1e-5)]


def norm_of_channels(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, 5, k)
    length = topi.sqrt(topi.sum(topi.multiply(x, x), axis=[1], keepdims=True))
    return [x, topi.divide(x, topi.add(length, 1e-5))]


def layer_norm(n: int, m: int, k: int) -> list[Any]:
    x, scale, shift = _input("x", n, m, k), _input("scale", k), _input("shift", k)
    return [x, scale, shift, topi.nn.layer_norm(x, scale, shift, [2], 1e-5)]


def matmul_with_bias(n: int, m: int, k: int) -> list[Any]:
    x, y, bias = _input("x", n, k), _input("y", k, m), _input("bias", m)
    return [x, y, bias, topi.nn.relu(topi.add(topi.matmul(x, y), bias))]


def dense(n: int, m: int, k: int) -> list[Any]:
    x, y = _input("x", n, k), _input("y", m, k)
    return [x, y, topi.nn.dense(x, y)]


def mean_of_rows(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.divide(topi.sum(x, axis=[1, 2]), float(m * k))]


def sum_of_columns(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.sum(x, axis=[0])]


def maximum_of_all(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.max(x)]


def gelu_of_transposed(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.multiply(topi.transpose(x, [0, 2, 1]), topi.sigmoid(topi.transpose(x, [0, 2, 1])))]


def transposed(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.transpose(x, [2, 0, 1])]


def scaled_by_channel(n: int, m: int, k: int) -> list[Any]:
    x, scale = _input("x", n, m, k), _input("scale", m)
    return [x, scale, topi.multiply(x, topi.exp(topi.reshape(scale, (m, 1))))]


def concatenated(n: int, m: int, k: int) -> list[Any]:
    x, y = _input("x", n, m, k), _input("y", n, 3, k)
    return [x, y, topi.concatenate([x, topi.nn.relu(y)], axis=1)]


def concatenated_rows(n: int, m: int, k: int) -> list[Any]:
    inputs = [_input(name, n, m, extent) for name, extent in (("x", k), ("y", 3), ("z", k))]
    return [*inputs, topi.nn.relu(topi.concatenate(inputs, axis=2))]


def maximum_pool(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", 1, n, m, k)
    return [x, topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max")]


def depthwise(n: int, m: int, k: int) -> list[Any]:
    x, weight = _input("x", 1, n, m, k), _input("weight", n, 1, 3, 3)
    return [x, weight, topi.nn.relu(topi.nn.depthwise_conv2d_nchw(x, weight, 1, 1, 1))]


def convolution(n: int, m: int, k: int) -> list[Any]:
    x, weight = _input("x", 1, n, m, k), _input("weight", 8, n, 3, 3)
    return [x, weight, topi.nn.relu(topi.nn.conv2d_nchw(x, weight, 1, 1, 1))]


def windows_with_silu(n: int, m: int, k: int) -> list[Any]:
    x, weight, bias = _input("x", 1, m, k, 16 * n), _input("weight", 3, 3, 16 * n, 1), _input("bias", 16 * n)
    found = topi.add(topi.nn.depthwise_conv2d_nhwc(x, weight, 1, 1, 1), bias)
    return [x, weight, bias, topi.multiply(found, topi.sigmoid(found))]


def maximum_of_pixels(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", 1, m, k, 16 * n)
    return [x, topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max", layout="NHWC")]


def mean_of_pixels(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", 1, m, k, 16 * n)
    return [x, topi.nn.relu(topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [1, 1, 1, 1], "avg", layout="NHWC"))]


def padded(n: int, m: int, k: int) -> list[Any]:
    x = _input("x", n, m, k)
    return [x, topi.nn.pad(x, [0, 1, 1], [0, 1, 2])]


def convolution_with_padding_behind(n: int, m: int, k: int) -> list[Any]:
    x, weight = _input("x", 1, n, m, k), _input("weight", 8, n, 3, 3)
    found = topi.nn.relu(topi.nn.conv2d_nchw(x, weight, 1, 1, 1))
    return [x, weight, topi.nn.pad(found, [0, 0, 0, 1], [0, 0, 1, 2], pad_value=-1.0)]


def dense_with_padding_around(n: int, m: int, k: int) -> list[Any]:
    x, weight = _input("x", n * m, k), _input("weight", 13, k)
    return [x, weight, topi.nn.pad(topi.nn.relu(topi.nn.dense(x, weight)), [1, 0], [0, 3], pad_value=2.0)]


def rolled_and_written_at_a_place(n: int, m: int, k: int) -> list[Any]:
    """TVM's partition of loops crashes where a choice depends on an iterator and on an element of a buffer."""
    x, value, place = _input("x", n, m, k), _input("value", n, m), te.placeholder((1,), "int32", name="place")

    def element(i: Any, j: Any, at: Any) -> Any:
        rolled = tvm.tirx.if_then_else(at >= 1, x[i, j, at - 1], x[i, j, at + k - 1])
        return tvm.tirx.if_then_else(tvm.tirx.all(at >= place[0], at < place[0] + 2), value[i, j], rolled)

    return [x, value, place, te.compute((n, m, k), element)]


KINDS: dict[str, Callable[[int, int, int], list[Any]]] = {
    each.__name__: each
    for each in (
        softmax, softmax_of_channels, softmax_of_padded_rows, group_norm, norm_of_channels, layer_norm,
        matmul_with_bias, dense, mean_of_rows, sum_of_columns, maximum_of_all, gelu_of_transposed,
        transposed, scaled_by_channel, concatenated, concatenated_rows, maximum_pool, depthwise, convolution, padded,
        windows_with_silu, maximum_of_pixels, mean_of_pixels, rolled_and_written_at_a_place,
        convolution_with_padding_behind, dense_with_padding_around,
    )
}  # fmt: skip


def module_of(kind: str, extents: tuple[int, int, int]) -> Any:
    function = te.create_prim_func(KINDS[kind](*extents)).with_attr("global_symbol", "main")
    return tvm.IRModule({"main": function})


def largest_difference(kind: str, extents: tuple[int, int, int]) -> float:
    """The largest relative difference between the results of the scheduled and the given function."""
    target = canonical_target({"kind": "llvm", "num-cores": 2}).target
    module = module_of(kind, extents)
    found = untried_schedule(module, target)
    random = np.random.default_rng(math.prod(extents))
    arguments = workload_of(module).arguments
    inputs = [random.normal(size=each.shape).astype(each.dtype) for each in arguments]
    first, second = (_run(each, target, inputs) for each in (found.module, module))
    pairs = [(x, y) for x, y, each in zip(first, second, arguments, strict=True) if each.is_output]
    return max(float(np.abs(x - y).max() / (np.abs(y).max() + 1e-6)) for x, y in pairs)


def _run(module: Any, target: Any, inputs: list[Any]) -> list[Any]:
    library = build_quickly(module, tvm_target(target))
    tensors = [tvm.runtime.tensor(each) for each in inputs]
    library["main"](*tensors)
    return [each.numpy() for each in tensors]
