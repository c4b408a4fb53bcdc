"""Operators that return what they are given are left out."""

from math import erf
from typing import Any

import numpy as np
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.identities import without_identities
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import host_target


def expanded(builder: Any, given: Any, names: Any) -> Any:
    """The product of attention's scores and values, as torch writes it."""
    scores = builder.emit(relax.op.broadcast_to(given[0], (1, 2, 3, 4)))
    values = builder.emit(relax.op.broadcast_to(given[1], (1, 2, 4, 5)))
    matrices = [builder.emit(relax.op.reshape(one, list(one.ty.shape)[1:])) for one in (scores, values)]
    return relax.op.matmul(*matrices)


def test_operators_that_change_no_shape_are_left_out_and_others_stay() -> None:
    module = one_entry(expanded, [(1, 2, 3, 4), (1, 1, 4, 5)], [])
    names: list[str] = []

    relax.analysis.post_order_visit(
        without_identities(module)["main"],
        lambda each: names.append(each.op.name) if isinstance(each, relax.Call) else None,
    )

    assert names.count("relax.broadcast_to") == 1
    assert names.count("relax.reshape") == 2


def test_an_expansion_to_the_same_shape_costs_no_copy() -> None:
    here = host_target(1)
    inputs = random_array(1, 2, 3, 4), random_array(1, 2, 4, 5, seed=1)
    prepared = prepare(one_entry(expanded, [each.shape for each in inputs], []), {"main": ()}, here)

    assert [task.functions for task in model_tasks(prepared)] == [("matmul",)]
    np.testing.assert_allclose(result_of(prepared, inputs), (inputs[0] @ inputs[1])[0], rtol=1e-5)


def test_concatenations_lose_operands_without_elements() -> None:
    def joined(builder: Any, given: Any, names: Any) -> Any:
        nothing = relax.const(np.zeros((1, 0, 4), "float32"))
        grown = builder.emit(relax.op.concat([nothing, given[0], given[0]], 1))
        return relax.op.concat([nothing, grown], 1)

    found: list[int] = []
    relax.analysis.post_order_visit(
        without_identities(one_entry(joined, [(1, 3, 4)], []))["main"],
        lambda each: found.append(len(each.fields)) if isinstance(each, relax.Tuple) else None,
    )
    assert found.count(2) == 1
    data = random_array(1, 3, 4)
    prepared = prepare(one_entry(joined, [(1, 3, 4)], []), {"main": ()}, host_target(1))
    np.testing.assert_array_equal(result_of(prepared, (data,)), np.concatenate([data, data], 1))


def perceptron(builder: Any, given: Any, names: Any) -> Any:
    """A transformer's layer as torch writes it: products of rows, the rest of tokens, and a residual sum."""
    rows = builder.emit(relax.op.reshape(given[0], (6, 8)))
    wide = builder.emit(relax.op.add(names[1], builder.emit(relax.op.matmul(rows, names[0]))))
    tokens = builder.emit(relax.op.nn.gelu(builder.emit(relax.op.reshape(wide, (2, 3, 16)))))
    back = builder.emit(relax.op.matmul(builder.emit(relax.op.reshape(tokens, (6, 16))), names[2]))
    return relax.op.add(given[0], builder.emit(relax.op.reshape(back, (2, 3, 8))))


def test_elementwise_operators_are_fused_with_the_product_before_a_reshape() -> None:
    here = host_target(1)
    weights = random_array(8, 16), random_array(16, seed=1), random_array(16, 8, seed=2)
    x = random_array(2, 3, 8)
    prepared = prepare(one_entry(perceptron, [x.shape], weights), {"main": weights}, here)

    functions = [name for task in model_tasks(prepared) for name in task.functions]
    assert functions == ["fused_matmul_add_gelu", "fused_matmul1_add1"]
    wide = x.reshape(6, 8) @ weights[0] + weights[1]
    gelu = 0.5 * wide * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
    expected = x + (gelu @ weights[2]).reshape(2, 3, 8)
    np.testing.assert_allclose(result_of(prepared, (x,)), expected, rtol=1e-4, atol=1e-5)


def test_products_keep_what_is_fused_with_them() -> None:
    here = host_target(1)
    weights = random_array(8, 8), random_array(8, 8, seed=1)

    def emit(builder: Any, given: Any, names: Any) -> Any:
        one = builder.emit(relax.op.matmul(given[0], names[0]))
        two = builder.emit(relax.op.matmul(given[1], names[1]))
        return relax.op.add(builder.emit(relax.op.reshape(one, (2, 3, 8))), two)

    inputs = random_array(6, 8), random_array(2, 3, 8, seed=3)
    prepared = prepare(one_entry(emit, [each.shape for each in inputs], weights), {"main": weights}, here)
    assert [task.functions for task in model_tasks(prepared)] == [("matmul",), ("fused_matmul_add",)]
    expected = (inputs[0] @ weights[0]).reshape(2, 3, 8) + inputs[1] @ weights[1]
    np.testing.assert_allclose(result_of(prepared, inputs), expected, rtol=1e-4, atol=1e-5)


def test_a_repeated_matrix_is_used_once_for_the_rows_of_all() -> None:
    """Torch repeats the weights of a layer for each token where its input is transposed, as in an attention."""
    here = host_target(1)
    weights = random_array(8, 4), random_array(4, seed=1)

    def emit(builder: Any, given: Any, names: Any) -> Any:
        repeated = builder.emit(relax.op.broadcast_to(names[0], (5, 8, 4)))
        return relax.op.add(builder.emit(relax.op.matmul(given[0], repeated)), names[1])

    x = random_array(5, 2, 8)
    prepared = prepare(one_entry(emit, [x.shape], weights), {"main": weights}, here)
    (task,) = model_tasks(prepared)

    assert task.functions == ("fused_matmul_add",)
    assert task.workload.arguments[0].shape == (10, 8)
    np.testing.assert_allclose(result_of(prepared, (x,)), x @ weights[0] + weights[1], rtol=1e-4, atol=1e-5)


def test_matrices_that_differ_are_not_taken_for_repeated_ones() -> None:
    here = host_target(1)

    def emit(builder: Any, given: Any, _names: Any) -> Any:
        # The second operand alone has as many matrices as the result.
        repeated = builder.emit(relax.op.broadcast_to(given[0], (5, 2, 8)))
        return relax.op.matmul(repeated, builder.emit(relax.op.add(given[1], given[1])))

    inputs = random_array(1, 2, 8), random_array(5, 8, 4)
    prepared = prepare(one_entry(emit, [each.shape for each in inputs], ()), {"main": ()}, here)

    np.testing.assert_allclose(result_of(prepared, inputs), inputs[0] @ (2 * inputs[1]), rtol=1e-4, atol=1e-5)
