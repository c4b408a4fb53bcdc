"""Operators that return what they are given are left out."""

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
