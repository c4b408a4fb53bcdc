"""The steps of an unrolled recurrence have equal functions, so that they are one task."""

from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.slices import MAX_APART, MAX_PART_ELEMENTS, MAX_PARTS, MIN_PARTS, slice_splits, split_slices
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target
from tunefarm_search.untried.untried_schedule import untried_schedule

WIDTH = 8


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


def recurrence(starts: range, length: int, extent: int = 1) -> Any:
    """``state = tanh((state + x[start]) @ w)`` over slices of ``x`` that begin at ``starts``."""

    def build(builder: Any, given: Any, names: Any) -> Any:
        state = builder.emit(relax.op.zeros((extent, WIDTH), "float32"))
        for start in starts:
            step = builder.emit(relax.op.strided_slice(given[0], [0], [start], [start + extent]))
            state = builder.emit(relax.op.tanh(builder.emit(relax.op.matmul(state + step, names[0]))))
        return state

    return one_entry(build, [(length, WIDTH)], [weight()])


def weight() -> np.ndarray[Any, np.dtype[np.float32]]:
    return 0.3 * random_array(WIDTH, WIDTH, seed=1)


def operators(module: Any) -> list[str]:
    names: list[str] = []
    relax.analysis.post_order_visit(
        module["main"],
        lambda each: names.append(each.op.name) if isinstance(each, relax.Call) and hasattr(each.op, "name") else None,
    )
    return names


@pytest.mark.parametrize("extent", [2, 1])
@pytest.mark.quick_cases(1)
def test_steps_of_a_recurrence_share_their_tasks(here: Target, extent: int) -> None:
    tasks = {}
    for steps in (6, 12):
        length = steps * extent
        prepared = prepare(recurrence(range(0, length, extent), length, extent), {"main": [weight()]}, here)
        tasks[steps] = model_tasks(prepared)
        given = random_array(length, WIDTH)
        state = np.zeros((extent, WIDTH), "float32")
        for start in range(0, length, extent):
            state = np.tanh((state + given[start : start + extent]) @ weight())
        np.testing.assert_allclose(result_of(prepared, (given,)), state, rtol=1e-4, atol=1e-5)
    assert len(tasks[6]) == len(tasks[12])
    assert max(sum(task.calls.values()) for task in tasks[12]) >= 11


@pytest.mark.parametrize(
    ("starts", "length", "extent"),
    [
        pytest.param(range(3), 3, 1, id="few"),
        pytest.param(range(6), 7, 1, id="the last one is missing"),
        pytest.param(range(0, 6, 1), 7, 2, id="overlapping"),
        pytest.param(range(MAX_PARTS + 1), MAX_PARTS + 1, 1, id="many"),
    ],
)
def test_other_slices_stay(starts: range, length: int, extent: int) -> None:
    module = split_slices(recurrence(starts, length, extent))
    assert "relax.split" not in operators(module)
    assert operators(module).count("relax.strided_slice") == len(starts)


def gated(parts: int, last: Any) -> Any:
    """``last`` of the parts of a tensor that is split along its last axis."""

    def build(builder: Any, given: Any, names: Any) -> Any:
        split = builder.emit(relax.op.split(given[0], parts, 1))
        return last(builder, [builder.emit(relax.TupleGetItem(split, at)) for at in range(parts)])

    return one_entry(build, [(2, 12)], [])


def lstm_step(builder: Any, gates: Any) -> Any:
    """Cell and hidden state, as two results."""
    kept = builder.emit(relax.op.sigmoid(gates[0]))
    cell = builder.emit(relax.op.add(kept, builder.emit(relax.op.tanh(gates[1]))))
    hidden = builder.emit(relax.op.multiply(relax.op.sigmoid(gates[2]), relax.op.tanh(cell)))
    return relax.Tuple([cell, hidden])


def test_gates_that_two_functions_read_are_not_copied(here: Target) -> None:
    prepared = prepare(gated(3, lstm_step), {"main": []}, here)
    assert len(model_tasks(prepared)) == 2
    assert not any("split" in name for task in model_tasks(prepared) for name in task.functions)
    given = random_array(2, 12)
    first, second, third = np.split(given, 3, 1)
    cell = 1 / (1 + np.exp(-first)) + np.tanh(second)
    expected = (cell, 1 / (1 + np.exp(-third)) * np.tanh(cell))
    for found, each in zip(result_of(prepared, (given,)), expected, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "last"),
    [
        pytest.param(3, lambda _, parts: relax.op.concat(parts[::-1], 1), id="read by a concatenation"),
        pytest.param(2, lambda b, parts: relax.Tuple([parts[0], b.emit(relax.op.tanh(parts[1]))]), id="a result"),
        pytest.param(
            6, lambda b, parts: relax.op.concat([b.emit(relax.op.tanh(part)) for part in parts], 1), id="many"
        ),
        pytest.param(
            2, lambda b, parts: relax.op.add(b.emit(relax.op.tanh(parts[0])), b.emit(parts[0] * parts[1])), id="twice"
        ),
    ],
)
def test_other_splits_stay(parts: int, last: Any) -> None:
    module = slice_splits(gated(parts, last))
    assert operators(module).count("relax.split") == 1
    assert "relax.strided_slice" not in operators(module)


@pytest.mark.faults
def test_largest_split_gets_a_schedule_without_a_trial(here: Target) -> None:
    prepared = prepare(recurrence(range(MAX_PARTS), MAX_PARTS), {"main": [weight()]}, here)
    task = max(model_tasks(prepared), key=lambda each: len(each.workload.arguments))
    assert len(task.workload.arguments) == MAX_PARTS + 1
    found = untried_schedule(load_json(task.workload.module_json), here)
    assert found.way != "none"


@pytest.mark.parametrize("count", [MIN_PARTS, MAX_APART, MAX_APART + 1])
def test_few_slices_that_take_long_to_copy_stay_with_their_readers(count: int) -> None:
    def build(builder: Any, given: Any, names: Any) -> Any:
        parts = [builder.emit(relax.op.strided_slice(given[0], [0], [at], [at + 1])) for at in range(count)]
        return relax.op.concat([builder.emit(relax.op.tanh(part)) for part in parts], 0)

    module = split_slices(one_entry(build, [(count, MAX_PART_ELEMENTS + 1)], []))

    assert ("relax.split" in operators(module)) == (count > MAX_APART)
