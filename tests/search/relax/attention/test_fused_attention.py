"""Attention with large scores is one function, which gives what its operators give."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array
from tests.search.relax.test_library_regions import result_of as result_with_regions
from tests.search.scheduled import functions_of, result_of_floats, untried_result
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.attention import fused_attention
from tunefarm_search.relax.library_regions.cutting import cut
from tunefarm_search.relax.library_regions.units import units_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.memory_bounds import bounds_of

HERE = host_target(1)
Between = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuses attention of any size."""
    monkeypatch.setattr(fused_attention, "_MIN_BYTES", 0)


def attention_of(
    heads: int, rows: int, elements: int, keys: int, width: int, between: Between | None = None, axis: int = -1
) -> PreparedModel:
    """Attention of heads in four axes, as frontends write it; ``between`` changes the scores."""

    def build(builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        turned = builder.emit(relax.op.permute_dims(given[1], [0, 2, 1]))
        scores = builder.emit(relax.op.matmul(given[0], turned))
        if between is not None:
            scores = builder.emit(between(builder, scores))
        wide = builder.emit(relax.op.reshape(scores, (1, heads, rows, keys)))
        powers = builder.emit(relax.op.nn.softmax(wide, axis=axis))
        flat = builder.emit(relax.op.reshape(powers, (heads, rows, keys)))
        return relax.op.matmul(flat, given[2])

    shapes = [(heads, rows, elements), (heads, keys, elements), (heads, keys, width)]
    return prepare(one_entry(build, shapes, ()), {"main": ()}, HERE)


def given_for(heads: int, rows: int, elements: int, keys: int, width: int) -> tuple[Array, Array, Array]:
    return (
        random_array(heads, rows, elements),
        random_array(heads, keys, elements, seed=1),
        random_array(heads, keys, width, seed=2),
    )


def expected_of(queries: Array, keys: Array, values: Array) -> Array:
    scores = queries.astype("float64") @ keys.transpose(0, 2, 1)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ values


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 12, 8, 64, 16),
        (1, 30, 16, 50, 64),
        (3, 7, 5, 130, 32),
        (2, 8, 64, 1, 128),
        (1, 5, 3, 192, 16),
        (3, 11, 8, 50, 16),
        (2, 8, 8, 90, 32),
        (1, 12, 16, 20, 16),
    ],
    ids=lambda sizes: "x".join(map(str, sizes)),
)
@pytest.mark.quick_cases(2)
def test_result_is_that_of_the_operators(sizes: tuple[int, int, int, int, int]) -> None:
    prepared, inputs = attention_of(*sizes), given_for(*sizes)
    assert "attention" in functions_of(prepared)
    np.testing.assert_allclose(untried_result(prepared, inputs), expected_of(*inputs), rtol=1e-4, atol=1e-5)


def test_keys_that_fill_the_last_tile_count_for_nothing() -> None:
    sizes = (1, 6, 8, 50, 16)
    queries, keys, values = given_for(*sizes)
    inputs = -100 * np.abs(queries), 1 + np.abs(keys), values  # all scores are far below 0
    np.testing.assert_allclose(untried_result(attention_of(*sizes), inputs), expected_of(*inputs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"between": lambda _builder, scores: relax.op.abs(scores)}, (2, 12, 8, 64, 16)),
        ({"between": lambda builder, scores: _read_twice(builder, scores)}, (2, 12, 8, 64, 16)),
        ({"axis": 2}, (2, 12, 8, 64, 16)),
        ({}, (2, 3, 8, 64, 16)),
        ({}, (2, 12, 8, 64, 20)),
    ],
    ids=["another operator", "scores read twice", "softmax of columns", "3 rows", "20 elements"],
)
def test_other_attention_stays_as_it_is(options: dict[str, Any], sizes: tuple[int, int, int, int, int]) -> None:
    assert "attention" not in functions_of(attention_of(*sizes, **options))


def test_rows_of_all_heads_times_values_of_each_stay_as_they_are() -> None:
    def build(builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        powers = builder.emit(relax.op.nn.softmax(builder.emit(relax.op.matmul(given[0], given[1])), axis=-1))
        return relax.op.matmul(builder.emit(relax.op.reshape(powers, (1, 24, 64))), given[2])

    shapes = [(2, 12, 8), (2, 8, 64), (2, 64, 16)]
    assert "attention" not in functions_of(prepare(one_entry(build, shapes, ()), {"main": ()}, HERE))


@pytest.mark.parametrize(("keys", "is_fused"), [(64, False), (31, False), (50, True)])
def test_small_scores_are_fused_if_vectors_do_not_divide_them(
    keys: int, monkeypatch: pytest.MonkeyPatch, *, is_fused: bool
) -> None:
    monkeypatch.setattr(fused_attention, "_MIN_BYTES", 4 * 2 * 12 * 64 + 1)
    assert ("attention" in functions_of(attention_of(2, 12, 8, keys, 16))) == is_fused


@pytest.mark.parametrize("rows", [12, 11])
@pytest.mark.quick_cases(1)
def test_a_library_gets_all_operators_of_attention(rows: int) -> None:
    sizes = (2, rows, 8, 64, 16)
    prepared, inputs = attention_of(*sizes), given_for(*sizes)
    units = units_of(prepared, lambda _module, _binding: None)
    assert not any(unit.problem for unit in units)
    whole = cut(prepared, units, ["A"] * len(units))
    [region] = whole.regions
    assert [name for name in region.operators if name in {"matmul", "nn.softmax"}] == ["matmul", "nn.softmax", "matmul"]
    np.testing.assert_allclose(result_with_regions(whole, inputs), expected_of(*inputs), rtol=1e-4, atol=1e-5)  # type: ignore[call-overload]


@pytest.mark.parametrize("target", [HERE, canonical_target({"kind": "llvm", "mcpu": "haswell"}, 4).target])
def test_candidates_compute_the_same_and_stay_inside(target: Target) -> None:
    prepared = attention_of(2, 24, 8, 70, 32)
    [module] = [
        load_json(task.workload.module_json) for task in model_tasks(prepared) if task.functions == ("attention",)
    ]
    space = search_space(module, target, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    expected = result_of_floats(module, HERE)
    rows = sketch.all_points()
    assert len(rows) > 8
    for row in rows[:: len(rows) // 3]:
        found = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(found, Scheduled)
        scheduled = scheduler.module_of(found.trace)
        assert ("T.parallel" in scheduled.script()) == (target is not HERE)
        assert bounds_of(scheduled, tvm_target(target)).is_proven
        if target is HERE:
            np.testing.assert_allclose(result_of_floats(scheduled, HERE), expected, rtol=1e-4, atol=1e-4)


def test_untried_schedule_is_a_point_of_the_space() -> None:
    task = next(task for task in model_tasks(attention_of(2, 12, 8, 64, 16)) if task.functions == ("attention",))
    module = load_json(task.workload.module_json)
    found = untried_schedule(module, HERE)
    assert found.way == "attention"
    assert isinstance(Scheduler(search_space(module, HERE, "stable", Space())).replay(found.trace), Scheduled)


def _read_twice(builder: Any, scores: Any) -> Any:
    largest = builder.emit(relax.op.max(scores, axis=[-1], keepdims=True))
    return relax.op.subtract(scores, largest)
