"""Schedules that leave a part of the result unwritten are found, and in no space."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
import tvm
from tvm import te, topi

from tests.search.untried.small_functions import module_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.space import search_space
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.written_results import writes_all_results

SHAPE = (3, 16, 16)
BORDERS: Sequence[tuple[Sequence[int], Sequence[int]]] = [((0, 0), (0, 1)), ((1, 0), (0, 0)), ((2, 0), (2, 3))]


def product_with_border(before: Sequence[int], after: Sequence[int]) -> Any:
    """A schedule that computes the padding of a product at the product's loop over rows."""
    x, weight = (te.placeholder((16, 16), "float32", name) for name in ("x", "weight"))
    result = topi.nn.pad(topi.nn.dense(x, weight), before, after, name="border")
    function = te.create_prim_func([x, weight, result]).with_attr("global_symbol", "main")
    return tvm.s_tir.Schedule(tvm.IRModule({"main": function}))


def fused(schedule: Any) -> Any:
    row = schedule.get_loops(schedule.get_sblock("T_matmul_NT"))[0]
    schedule.reverse_compute_at(schedule.get_sblock("border"), row)
    return schedule


@pytest.mark.parametrize(("before", "after"), BORDERS, ids=str)
def test_border_of_a_product_is_unwritten_where_its_rows_are_computed(
    before: Sequence[int], after: Sequence[int]
) -> None:
    schedule = product_with_border(before, after)
    assert writes_all_results(schedule.mod)
    assert not writes_all_results(fused(schedule).mod)


def test_consumer_without_a_border_is_written_where_rows_are_computed() -> None:
    assert writes_all_results(fused(product_with_border((0, 0), (0, 0))).mod)


@pytest.mark.parametrize("kind", ["convolution_with_padding_behind", "dense_with_padding_around"])
def test_space_has_only_sketches_that_write_all_results(kind: str, target: Target) -> None:
    module = module_of(kind, SHAPE)
    space = search_space(module, target, "stable", Space())
    assert space.sketches
    for sketch in space.sketches:
        schedule = judged_schedule(module, json.loads(sketch.steps.sketch.text), callees=frozenset(), seed=1)
        assert writes_all_results(schedule.mod)
