"""Indices from outside of a model read nothing outside of its tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.scheduled import untried_result
from tunefarm_search.relax.expressions import operator_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)
TABLE = random_array(10, 16)


def embedding(dtype: str, tokens: int) -> PreparedModel:
    """Rows of a constant table at indices that are an input."""
    builder = relax.BlockBuilder()
    given = relax.Var("tokens", relax.TensorType((tokens,), dtype))
    weights = relax.Var("weights", relax.TensorType(TABLE.shape, "float32"))
    with builder.function("main", [given, weights], attrs={"num_input": 1}):
        with builder.dataflow():
            result = builder.emit_output(relax.op.take(weights, given, axis=0))
        builder.emit_func_output(result)
    return prepare(builder.get(), {"main": (TABLE,)}, HERE)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("tokens", [[0, 9, 3], [10, -1, 5], [2**31 - 1, -(2**31), 4]], ids=["inside", "beside", "far"])
def test_rows_that_do_not_exist_are_the_first_or_the_last(tokens: Sequence[int], dtype: str) -> None:
    found = untried_result(embedding(dtype, len(tokens)), (np.array(tokens, dtype),))
    np.testing.assert_array_equal(found, TABLE[np.clip(tokens, 0, 9)])


@pytest.mark.parametrize(("known", "mode"), [([0, 9, 3], "fast"), ([0, 10, 3], "clip"), ([-1, 0], "clip")])
def test_known_indices_are_clipped_if_that_is_needed(known: list[int], mode: str) -> None:
    def build(_builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        return relax.op.take(given[0], relax.const(np.array(known)), axis=0)

    prepared = prepare(one_entry(build, [TABLE.shape], ()), {"main": ()}, HERE)
    calls: list[Any] = []
    relax.analysis.post_order_visit(prepared.stages.operators["main"], calls.append)
    assert [str(each.attrs.mode) for each in calls if operator_of(each) == "relax.take"] == [mode]
