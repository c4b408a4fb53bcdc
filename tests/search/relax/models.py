"""Small models as Relax modules, with NumPy functions that compute the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

Array = Any


@dataclass(frozen=True)
class SmallModel:
    module: Any
    weights: dict[str, tuple[Array, ...]]
    inputs: tuple[Array, ...]
    expected: Callable[..., Any]


def random_array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def multilayer_perceptron() -> SmallModel:
    weights = (
        random_array(24, 16),
        random_array(24),
        random_array(24, 24, seed=1),
        random_array(24, seed=1),
        random_array(10, 24),
    )

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        hidden = given[0]
        for at in (0, 2):
            product = builder.emit(relax.op.matmul(hidden, relax.op.permute_dims(names[at])))
            hidden = builder.emit(relax.op.nn.relu(relax.op.add(product, names[at + 1])))
        return relax.op.matmul(hidden, relax.op.permute_dims(names[4]))

    def expected(x: Array) -> Array:
        for at in (0, 2):
            x = np.maximum(x @ weights[at].T + weights[at + 1], 0)
        return x @ weights[4].T

    return SmallModel(one_entry(build, [(4, 16)], weights), {"main": weights}, (random_array(4, 16),), expected)


def grouped_by_hand() -> SmallModel:
    """The same perceptron, in which the user has made one primitive function of each product with its sum."""
    model = multilayer_perceptron()
    grouping = _Grouping(model.module)
    entry = grouping.visit_expr(model.module["main"])
    grouping.builder_.update_func(model.module.get_global_var("main"), entry)
    return replace(model, module=grouping.builder_.get())


@relax.expr_functor.mutator
class _Grouping(relax.PyExprMutator):  # type: ignore[misc]
    """Makes a call of a primitive function of ``add(matmul(data, permute_dims(weight)), bias)``."""

    def visit_call_(self, call: Any) -> Any:
        product = self.lookup_binding(call.args[0]) if call.op == tvm.ir.Op.get("relax.add") else None
        if getattr(product, "op", None) != tvm.ir.Op.get("relax.matmul"):
            return call
        arguments = (product.args[0], self.lookup_binding(product.args[1]).args[0], call.args[1])
        builder = relax.BlockBuilder()
        data, weight, bias = (relax.Var(f"p{at}", each.ty) for at, each in enumerate(arguments))
        with builder.function("dense_add", [data, weight, bias], attrs={"Primitive": True}):
            with builder.dataflow():
                product = builder.emit(relax.op.matmul(data, builder.emit(relax.op.permute_dims(weight))))
                result = builder.emit_output(relax.op.add(product, bias))
            builder.emit_func_output(result)
        function = builder.get()["dense_add"].without_attr("global_symbol")
        return relax.Call(self.builder_.add_func(function, "dense_add"), arguments)


def one_entry(
    build: Callable[[Any, Sequence[Any], Sequence[Any]], Any],
    inputs: Sequence[tuple[int, ...]],
    weights: Sequence[Array],
    *,
    name: str = "main",
    builder: Any = None,
) -> Any:
    """A module with one function, whose body ``build`` emits; the weights are its last parameters."""
    builder = builder or relax.BlockBuilder()
    given = [relax.Var(f"x{at}", relax.TensorType(shape, "float32")) for at, shape in enumerate(inputs)]
    names = [relax.Var(f"w{at}", relax.TensorType(each.shape, str(each.dtype))) for at, each in enumerate(weights)]
    with builder.function(name, [*given, *names], attrs={"num_input": len(given)}):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(build(builder, given, names)))
        builder.emit_func_output(result)
    return builder.get()


def run(machine: Any, inputs: Sequence[Array], entry: str = "main") -> Any:
    result = machine[entry](*(tvm.runtime.tensor(each) for each in inputs))
    return arrays_of(result)


def arrays_of(result: Any) -> Any:
    return result.numpy() if isinstance(result, tvm.runtime.Tensor) else tuple(arrays_of(each) for each in result)


def flattened() -> SmallModel:
    """Two products, the second of a view of the first one's result."""
    weights = random_array(4, 4), random_array(12, 5)

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        product = builder.emit(relax.op.matmul(given[0], names[0]))
        return relax.op.matmul(builder.emit(relax.op.reshape(product, (2, 12))), names[1])

    def expected(x: Array) -> Array:
        return (x @ weights[0]).reshape(2, 12) @ weights[1]

    return SmallModel(one_entry(build, [(2, 3, 4)], weights), {"main": weights}, (random_array(2, 3, 4),), expected)


def reshaped() -> SmallModel:
    """A product whose input and result are views of other shapes."""
    weights = (random_array(12, 5),)

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        product = builder.emit(relax.op.matmul(builder.emit(relax.op.reshape(given[0], (2, 12))), names[0]))
        return relax.op.reshape(product, (1, 10))

    def expected(x: Array) -> Array:
        return (x.reshape(2, 12) @ weights[0]).reshape(1, 10)

    return SmallModel(one_entry(build, [(2, 3, 4)], weights), {"main": weights}, (random_array(2, 3, 4),), expected)


def convolutional_network() -> SmallModel:
    """Two convolutions with batch norms, one of them with a bias, a residual sum, pooling, and a dense layer."""
    first, second, bias = random_array(8, 3, 3, 3), random_array(8, 8, 3, 3), random_array(8)
    norms = [np.abs(random_array(8, seed=at)) + 0.5 if at % 4 == 3 else random_array(8, seed=at) for at in range(8)]
    dense = random_array(8 * 4 * 4, 10)
    weights = (first, second, bias, dense, *norms)

    def normalised(builder: Any, data: Any, names: Sequence[Any]) -> Any:
        return builder.emit(relax.TupleGetItem(builder.emit(relax.op.nn.batch_norm(data, *names, axis=1)), 0))

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        one = builder.emit(relax.op.nn.conv2d(given[0], names[0], padding=1))
        one = builder.emit(relax.op.nn.relu(normalised(builder, one, names[4:8])))
        two = builder.emit(relax.op.nn.conv2d(one, names[1], padding=1))
        two = builder.emit(relax.op.add(two, relax.op.reshape(names[2], (1, 8, 1, 1))))
        two = builder.emit(relax.op.nn.relu(relax.op.add(normalised(builder, two, names[8:12]), one)))
        pooled = builder.emit(relax.op.nn.max_pool2d(two, pool_size=(2, 2), strides=(2, 2)))
        return relax.op.matmul(builder.emit(relax.op.reshape(pooled, (1, 128))), names[3])

    def norm(data: Array, given: Sequence[Array]) -> Array:
        weight, shift, mean, variance = (each.reshape(1, 8, 1, 1) for each in given)
        return (data - mean) / np.sqrt(variance + 1e-5) * weight + shift

    def expected(x: Array) -> Array:
        one = np.maximum(norm(convolved(x, first), norms[:4]), 0)
        two = np.maximum(norm(convolved(one, second) + bias.reshape(1, 8, 1, 1), norms[4:]) + one, 0)
        return two.reshape(1, 8, 4, 2, 4, 2).max(axis=(3, 5)).reshape(1, 128) @ dense

    return SmallModel(
        one_entry(build, [(1, 3, 8, 8)], weights), {"main": weights}, (random_array(1, 3, 8, 8),), expected
    )


def convolved(data: Array, weight: Array, padding: int = 1) -> Array:
    """A convolution in the layouts NCHW and OIHW."""
    padded = np.pad(data, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwyx,ocyx->nohw", windows, weight)


def plus(number: float, elements: int = 4) -> SmallModel:
    """A model of a vector, whose only function has the same name whatever it adds."""

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        return builder.emit(relax.op.add(given[0], relax.const(number, "float32")))

    module = one_entry(build, [(elements,)], ())
    return SmallModel(module, {"main": ()}, (random_array(elements),), lambda x: x + number)


def tuples() -> SmallModel:
    """Two results, of which one is a sum and the other a nested pair."""

    def build(builder: Any, given: Sequence[Any], _names: Sequence[Any]) -> Any:
        total = builder.emit(relax.op.sum(given[0], axis=1))
        return relax.Tuple([total, relax.Tuple([builder.emit(relax.op.exp(given[1])), given[0]])])

    def expected(x: Array, y: Array) -> Any:
        return x.sum(axis=1), (np.exp(y), x)

    module = one_entry(build, [(4, 6), (5,)], ())
    return SmallModel(module, {}, (random_array(4, 6), random_array(5)), expected)


def two_entries() -> SmallModel:
    """Two functions with weights of their own."""
    encoder, decoder = (random_array(6, 6),), (random_array(6, 6, seed=1), random_array(6, 6, seed=2))

    def encode(_builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        return relax.op.matmul(given[0], names[0])

    def decode(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        return relax.op.matmul(builder.emit(relax.op.matmul(given[0], names[0])), names[1])

    def expected(entry: str, x: Array) -> Array:
        return x @ encoder[0] if entry == "encode" else x @ decoder[0] @ decoder[1]

    builder = relax.BlockBuilder()
    one_entry(encode, [(6, 6)], encoder, name="encode", builder=builder)
    module = one_entry(decode, [(6, 6)], decoder, name="decode", builder=builder)
    return SmallModel(module, {"encode": encoder, "decode": decoder}, (random_array(6, 6),), expected)


def two_caches() -> SmallModel:
    """Writes a row of each of two caches where a mask is positive; returns their product's sums, and both."""
    heads, rows, width = 4, 64, 8
    mask = np.zeros(rows, np.float32)
    mask[5] = 1.0

    def build(builder: Any, given: Sequence[Any], _: Sequence[Any]) -> Any:
        *tensors, mask = given
        column = builder.emit(relax.op.reshape(mask, (1, rows, 1)))
        is_new = builder.emit(relax.op.greater(column, relax.const(0.0)))
        caches = [builder.emit(relax.op.where(is_new, tensors[at + 2], tensors[at])) for at in range(2)]
        product = builder.emit(relax.op.multiply(*caches))
        return relax.Tuple([builder.emit(relax.op.sum(product, axis=1)), *caches])

    def expected(*given: Array) -> tuple[Array, ...]:
        caches = [np.where(given[4].reshape(1, rows, 1) > 0, given[at + 2], given[at]) for at in range(2)]
        return (caches[0] * caches[1]).sum(1), *caches

    shapes = [*[(heads, rows, width)] * 2, *[(heads, 1, width)] * 2, (rows,)]
    inputs = (*(random_array(*shape, seed=at) for at, shape in enumerate(shapes[:-1])), mask)
    return SmallModel(one_entry(build, shapes, ()), {"main": ()}, inputs, expected)


def scattered_rows() -> SmallModel:
    rows = np.repeat(np.array([[5], [2]], "int64"), 16, axis=1)

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        written = relax.op.scatter_elements(given[0], relax.const(rows), given[1], axis=0)
        return relax.op.nn.relu(builder.emit(written))

    def expected(x: Array, update: Array) -> Array:
        x = x.copy()
        np.put_along_axis(x, rows, update, axis=0)
        return np.maximum(x, 0)

    inputs = (random_array(8, 16), random_array(2, 16))
    return SmallModel(one_entry(build, [(8, 16), (2, 16)], ()), {"main": ()}, inputs, expected)


@cache
def controlled() -> Any:
    """Doubles its input a number of times, and then keeps the positive or the negative part of it."""

    @I.ir_module
    class Controlled:
        @R.function(private=True)
        def loop(x: R.Tensor((8,), "float32"), left: R.Tensor((), "int32")) -> R.Tensor((8,), "float32"):  # noqa: N805
            cls = Controlled
            goes_on: R.Tensor((), "bool") = R.greater(left, R.const(0, "int32"))
            if goes_on:
                doubled: R.Tensor((8,), "float32") = R.multiply(x, R.const(2.0, "float32"))
                fewer: R.Tensor((), "int32") = R.subtract(left, R.const(1, "int32"))
                result: R.Tensor((8,), "float32") = cls.loop(doubled, fewer)
            else:
                result: R.Tensor((8,), "float32") = x
            return result

        @R.function
        def main(x: R.Tensor((8,), "float32"), times: R.Tensor((), "int32")) -> R.Tensor((8,), "float32"):  # noqa: N805
            cls = Controlled
            scaled: R.Tensor((8,), "float32") = cls.loop(x, times)
            total: R.Tensor((), "float32") = R.sum(scaled)
            is_positive: R.Tensor((), "bool") = R.greater(total, R.const(0.0, "float32"))
            if is_positive:
                part: R.Tensor((8,), "float32") = R.maximum(scaled, R.const(0.0, "float32"))
            else:
                part: R.Tensor((8,), "float32") = R.minimum(scaled, R.const(0.0, "float32"))
            return part

    return Controlled


def loop(doublings: int, *, ends_early: bool = False) -> Any:
    """``main`` halves a vector and adds one, two to the power of ``doublings`` times: each function calls one twice.

    With ``ends_early`` the second call is made only if the sum of the vector is less than a thousand.
    """
    builder = relax.BlockBuilder()
    step: Any = None
    for level in range(doublings + 1):
        name = "main" if level == doublings else f"loop{level}"
        given = relax.Var("state", relax.TensorType((4,), "float32"))
        with builder.function(name, [given], private=name != "main"):
            if step is None:
                with builder.dataflow():
                    half = builder.emit(relax.op.multiply(given, relax.const(0.5, "float32")))
                    result = builder.emit_output(relax.op.add(half, relax.const(1.0, "float32")))
            elif ends_early:
                once = builder.emit(relax.Call(step, [given]))
                total = builder.emit(relax.op.sum(once))
                goes_on = builder.emit(relax.op.less(total, relax.const(1000.0, "float32")))
                result = builder.emit(relax.If(goes_on, relax.Call(step, [once]), once))
            else:
                with builder.dataflow():
                    once = builder.emit(relax.Call(step, [given]))
                    result = builder.emit_output(relax.Call(step, [once]))
            step = builder.emit_func_output(result)
    return builder.get()
