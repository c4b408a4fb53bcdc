"""Products of a few rows read matrices as they are, and give what their operators give."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array
from tests.search.scheduled import functions_of, result_of_floats, untried_result
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target, tvm_target
from tunefarm_search.validation.memory_bounds import bounds_of

HERE = host_target(1)
BATCH, HEADS, OF_KEYS, KEYS, ELEMENTS = 2, 4, 2, 48, 64


def prepared_for(build: Callable[..., Any], *inputs: Array, target: Target = HERE) -> PreparedModel:
    def built(builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        return build(builder, *given)

    return prepare(one_entry(built, [each.shape for each in inputs], ()), {"main": ()}, target)


def turned(builder: Any, matrices: Any) -> Any:
    rank = len(matrices.ty.shape)
    return builder.emit(relax.op.permute_dims(matrices, [*range(rank - 2), rank - 1, rank - 2]))


def product_with_turned(builder: Any, rows: Any, matrices: Any) -> Any:
    return relax.op.matmul(rows, turned(builder, matrices))


def repeated(builder: Any, matrices: Any) -> Any:
    """Keys or values for each head, as exporters write them."""
    batch, heads, count, elements = (int(extent) for extent in matrices.ty.shape)
    apart = builder.emit(relax.op.expand_dims(matrices, 2))
    wide = builder.emit(relax.op.broadcast_to(apart, (batch, heads, HEADS // heads, count, elements)))
    return builder.emit(relax.op.reshape(wide, (batch, HEADS, count, elements)))


def decoded(builder: Any, rows: Any, keys: Any, values: Any) -> Any:
    """Attention of one token, as torch decomposes it: the keys are scaled, too."""
    columns = turned(builder, repeated(builder, keys))
    columns = builder.emit(relax.op.multiply(columns, relax.const(np.float32(0.5))))
    flat = builder.emit(relax.op.reshape(columns, (BATCH * HEADS, ELEMENTS, KEYS)))
    scores = builder.emit(relax.op.matmul(builder.emit(relax.op.reshape(rows, (BATCH * HEADS, -1, ELEMENTS))), flat))
    powers = builder.emit(relax.op.nn.softmax(builder.emit(relax.op.reshape(scores, (BATCH, HEADS, -1, KEYS)))))
    return relax.op.matmul(powers, repeated(builder, values))


def decoding_inputs(rows: int = 1) -> tuple[Array, ...]:
    shapes = [(BATCH, HEADS, rows, ELEMENTS), (BATCH, OF_KEYS, KEYS, ELEMENTS), (BATCH, OF_KEYS, KEYS, ELEMENTS)]
    return tuple(random_array(*shape, seed=seed) for seed, shape in enumerate(shapes))


def decoded_by_numpy(rows: Array, keys: Array, values: Array) -> Array:
    copies = HEADS // OF_KEYS
    keys, values = (each.astype("float64").repeat(copies, axis=1) for each in (keys, values))
    scores = 0.5 * rows @ keys.transpose(0, 1, 3, 2)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ values


def sizes_of(prepared: PreparedModel) -> list[int]:
    """The elements of the result of each function."""
    modules = [load_json(task.workload.module_json) for task in model_tasks(prepared)]
    return [int(np.prod([int(extent) for extent in module["main"].params[-1].shape])) for module in modules]


@pytest.mark.parametrize("cores", [2, 1])
@pytest.mark.parametrize("rows", [3, 1])
@pytest.mark.quick_cases(1)
def test_heads_share_keys_and_values_without_copies(rows: int, cores: int) -> None:
    inputs = decoding_inputs(rows)
    prepared = prepared_for(decoded, *inputs, target=host_target(cores))
    assert "rows_product" in functions_of(prepared)
    assert max(sizes_of(prepared)) < inputs[1].size, "neither keys nor values are written in another form"
    np.testing.assert_allclose(untried_result(prepared, inputs), decoded_by_numpy(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 2, 48, 64), (1, 4, 130, 64), (16, 1, 20, 32)])
@pytest.mark.quick_cases(2)
def test_rows_of_a_matrix_are_not_transposed(shape: tuple[int, ...]) -> None:
    heads, rows, keys, elements = shape
    inputs = random_array(heads, rows, elements), random_array(heads, keys, elements, seed=1)
    prepared = prepared_for(product_with_turned, *inputs)
    assert functions_of(prepared) == ["rows_product"]
    expected = inputs[0].astype("float64") @ inputs[1].transpose(0, 2, 1)
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-4)


others = pytest.mark.parametrize(
    "shape",
    [(8, 5, 48, 64), (8, 2, 48, 60), (8, 2, 53, 64), (1, 2, 16, 64)],
    ids=["many rows", "odd elements", "keys without divisors", "small"],
)


@others
def test_other_products_transpose_their_matrix(shape: tuple[int, ...]) -> None:
    heads, rows, keys, elements = shape
    inputs = random_array(heads, rows, elements), random_array(heads, keys, elements, seed=1)
    assert "rows_product" not in functions_of(prepared_for(product_with_turned, *inputs))


@others
@pytest.mark.quick_cases(1)
def test_other_products_compute_the_same(shape: tuple[int, ...]) -> None:
    heads, rows, keys, elements = shape
    inputs = random_array(heads, rows, elements), random_array(heads, keys, elements, seed=1)
    prepared = prepared_for(product_with_turned, *inputs)
    expected = inputs[0].astype("float64") @ inputs[1].transpose(0, 2, 1)
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-4)


def test_matrix_that_is_a_result_too_is_transposed_for_both() -> None:
    def build(builder: Any, rows: Any, matrices: Any) -> Any:
        columns = turned(builder, matrices)
        return relax.Tuple([builder.emit(relax.op.matmul(rows, columns)), columns])

    prepared = prepared_for(build, random_array(8, 2, 64), random_array(8, 48, 64))
    assert "rows_product" not in functions_of(prepared)


def test_copies_that_are_apart_stay() -> None:
    """A batch of one is repeated as a whole: its heads do not follow themselves."""

    def build(builder: Any, rows: Any, matrices: Any) -> Any:
        wide = builder.emit(relax.op.broadcast_to(matrices, (2, 4, KEYS, ELEMENTS)))
        return relax.op.matmul(rows, turned(builder, wide))

    inputs = random_array(2, 4, 1, ELEMENTS), random_array(1, 4, KEYS, ELEMENTS, seed=1)
    prepared = prepared_for(build, *inputs)
    expected = inputs[0].astype("float64") @ inputs[1].transpose(0, 1, 3, 2)
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cores", [2, 1])
@pytest.mark.quick_cases(1)
def test_search_finds_schedules_of_a_few_rows(cores: int) -> None:
    target = host_target(cores)
    inputs = random_array(8, 3, ELEMENTS), random_array(8, KEYS, ELEMENTS, seed=1)
    (task,) = model_tasks(prepared_for(product_with_turned, *inputs, target=target))
    module = load_json(task.workload.module_json)
    space = search_space(module, target, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    expected = result_of_floats(module, target)
    points = sketch.all_points()
    assert len(points) > 3
    for row in points[::2]:
        found = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(found, Scheduled)
        scheduled = scheduler.module_of(found.trace)
        assert bounds_of(scheduled, tvm_target(target)).is_proven
        np.testing.assert_allclose(result_of_floats(scheduled, target), expected, rtol=1e-4, atol=1e-4)
