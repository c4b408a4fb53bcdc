"""Operators on constants are evaluated while a model is prepared."""

from typing import Any

import numpy as np
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import host_target

X = random_array(4, 8)


def prepared_model(build: Any, *weights: Any) -> Any:
    return prepare(one_entry(build, [X.shape], weights), {"main": weights}, host_target(1))


def test_parts_of_a_matrix_of_weights_are_matrices_of_their_own() -> None:
    weights = random_array(48, 8)

    def build(builder: Any, given: Any, names: Any) -> Any:
        parts = builder.emit(relax.op.split(names[0], [16], 0))
        products = [
            builder.emit(relax.op.matmul(given[0], builder.emit(relax.op.permute_dims(part))))
            for part in (builder.emit(relax.TupleGetItem(parts, 0)), builder.emit(relax.TupleGetItem(parts, 1)))
        ]
        return relax.Tuple(products)

    prepared = prepared_model(build, weights)

    assert [task.functions for task in model_tasks(prepared)] == [("matmul",), ("matmul1",)]
    for found, part in zip(result_of(prepared, (X,)), (weights[:16], weights[16:]), strict=True):
        np.testing.assert_allclose(found, X @ part.T, rtol=1e-4, atol=1e-5)


def test_an_even_split_and_a_slice_are_parts_too() -> None:
    weights = random_array(8, 7)

    def build(builder: Any, given: Any, names: Any) -> Any:
        parts = builder.emit(relax.op.split(names[0], 3, 1))  # of 3, 3 and 1 columns
        last = builder.emit(relax.TupleGetItem(parts, 2))
        every_other = builder.emit(relax.op.strided_slice(names[0], [1], [0], [7], [2]))
        joined = builder.emit(relax.op.concat([last, every_other], 1))
        return relax.op.matmul(given[0], joined)

    prepared = prepared_model(build, weights)

    expected = X @ np.concatenate([weights[:, 6:], weights[:, ::2]], axis=1)
    np.testing.assert_allclose(result_of(prepared, (X,)), expected, rtol=1e-4, atol=1e-5)


def test_a_causal_mask_of_infinities_is_evaluated() -> None:
    def build(builder: Any, given: Any, _names: Any) -> Any:
        full = builder.emit(relax.op.full((4, 8), relax.const(-np.inf, "float32"), "float32"))
        masked = builder.emit(relax.op.add(given[0], builder.emit(relax.op.triu(full, 1))))
        return relax.op.nn.softmax(masked, -1)

    prepared = prepared_model(build)

    assert [task.functions for task in model_tasks(prepared)] == [("add",), ("softmax",)]
    powers = np.tril(np.exp(X))
    np.testing.assert_allclose(result_of(prepared, (X,)), powers / powers.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)
