"""Attention with a scale, a mask and torch's guard is one function, too, and gives what its operators give."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.attention.test_fused_attention import given_for
from tests.search.relax.models import Array, one_entry, random_array
from tests.search.relax.test_library_regions import result_of as result_with_regions
from tests.search.scheduled import functions_of, result_of_floats, untried_result
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.attention import fused_attention
from tunefarm_search.relax.library_regions.cutting import cut
from tunefarm_search.relax.library_regions.units import units_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target, tvm_target
from tunefarm_search.validation.memory_bounds import bounds_of

HERE = host_target(1)
BATCH, HEADS, ROWS, ELEMENTS, WIDTH = 2, 3, 12, 8, 16
Changed = Callable[[Any, Any, Any], Any]
"""Relax scores of a builder, the scores of products, and the mask."""


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuses attention of any size."""
    monkeypatch.setattr(fused_attention, "_MIN_BYTES", 0)


def added(_builder: Any, scores: Any, mask: Any) -> Any:
    return relax.op.add(scores, mask)


def hidden_where(number: float) -> Changed:
    def change(builder: Any, scores: Any, mask: Any) -> Any:
        is_hidden = builder.emit(relax.op.less(mask, relax.const(np.float32(0))))
        return relax.op.where(is_hidden, relax.const(np.float32(number)), scores)

    return change


def kept_where(builder: Any, scores: Any, mask: Any) -> Any:
    is_kept = builder.emit(relax.op.greater_equal(mask, relax.const(np.float32(0))))
    return relax.op.where(is_kept, scores, relax.const(np.float32(-math.inf)))


def masked_attention(
    change: Changed, mask: Sequence[int], keys: int, *, rows: int = ROWS, is_guarded: bool = False
) -> PreparedModel:
    """Attention of batches of heads, as torch exports it."""
    shape = (BATCH, HEADS, rows, keys)

    def build(builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        turned = builder.emit(relax.op.permute_dims(given[1], [0, 2, 1]))
        products = builder.emit(relax.op.matmul(given[0], turned))
        scores = builder.emit(relax.op.reshape(products, shape))
        scores = builder.emit(change(builder, scores, given[3]))
        powers = builder.emit(relax.op.nn.softmax(scores, axis=-1))
        powers = builder.emit(guarded(builder, scores, powers)) if is_guarded else powers
        flat = builder.emit(relax.op.reshape(powers, (BATCH * HEADS, rows, keys)))
        return relax.op.matmul(flat, given[2])

    heads = BATCH * HEADS
    shapes = [(heads, rows, ELEMENTS), (heads, keys, ELEMENTS), (heads, keys, WIDTH), tuple(mask)]
    return prepare(one_entry(build, shapes, ()), {"main": ()}, HERE)


def guarded(builder: Any, scores: Any, powers: Any) -> Any:
    """Zeros in rows without a finite score, as torch's decomposition has it."""
    is_hidden = builder.emit(relax.op.equal(scores, relax.const(np.float32(-math.inf))))
    is_kept = builder.emit(relax.op.astype(builder.emit(relax.op.logical_not(is_hidden)), "int8"))
    has_kept = builder.emit(relax.op.astype(builder.emit(relax.op.max(is_kept, [-1], keepdims=True)), "bool"))
    zeros = builder.emit(relax.op.full_like(powers, relax.const(np.float32(0))))
    return relax.op.where(builder.emit(relax.op.logical_not(has_kept)), zeros, powers)


def inputs_for(mask: Sequence[int], keys: int, rows: int = ROWS) -> tuple[Array, ...]:
    """Queries, keys, values, and a mask that hides some keys; no row without a kept one."""
    array = random_array(*mask, seed=3)
    array[array < -0.2] = -math.inf
    array[..., keys // 2] = 0.5
    return (*given_for(BATCH * HEADS, rows, ELEMENTS, keys, WIDTH), array)


def expected_of(scores: Array, values: Array) -> Array:
    scores = scores.reshape(BATCH * HEADS, *scores.shape[2:])
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    return powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-30) @ values


def products_of(inputs: Sequence[Array]) -> Array:
    products = inputs[0].astype("float64") @ inputs[1].transpose(0, 2, 1)
    return products.reshape(BATCH, HEADS, *products.shape[1:])


@pytest.mark.parametrize(("keys", "is_guarded"), [(64, True), (50, False)], ids=["64 guarded", "50"])
@pytest.mark.parametrize(
    "mask",
    [
        lambda keys: (BATCH, HEADS, ROWS, keys),
        lambda keys: (BATCH, 1, ROWS, keys),
        lambda keys: (BATCH, 1, 1, keys),
        lambda keys: (ROWS, keys),
        lambda keys: (1, keys),
    ],
    ids=["whole", "of batches", "of keys of batches", "of rows", "of keys"],
)
@pytest.mark.quick_cases(2)
def test_mask_is_added(mask: Callable[[int], tuple[int, ...]], keys: int, *, is_guarded: bool) -> None:
    shape = mask(keys)
    prepared = masked_attention(added, shape, keys, is_guarded=is_guarded)
    assert {"attention"} <= set(functions_of(prepared))
    assert not any("softmax" in name for name in functions_of(prepared))
    inputs = inputs_for(shape, keys)
    expected = expected_of(products_of(inputs) + inputs[3], inputs[2])
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [(BATCH, 1, 1, 50), (BATCH, HEADS, ROWS, 50)], ids=["of keys of batches", "whole"])
@pytest.mark.quick_cases(1)
def test_heads_of_batches_have_axes_of_their_own(mask: tuple[int, ...]) -> None:
    """As ONNX exporters write attention."""

    def build(builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        turned = builder.emit(relax.op.permute_dims(given[1], [0, 1, 3, 2]))
        products = builder.emit(relax.op.matmul(given[0], turned))
        scores = builder.emit(relax.op.add(products, given[3]))
        return relax.op.matmul(builder.emit(relax.op.nn.softmax(scores, axis=-1)), given[2])

    *flat, added_mask = inputs_for(mask, 50)
    inputs = [*(array.reshape(BATCH, HEADS, *array.shape[1:]) for array in flat), added_mask]
    prepared = prepare(one_entry(build, [array.shape for array in inputs], ()), {"main": ()}, HERE)
    assert "attention" in functions_of(prepared)
    expected = expected_of(products_of(flat) + added_mask, flat[2]).reshape(BATCH, HEADS, ROWS, WIDTH)
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-5)


def test_keys_without_heads_are_one_head() -> None:
    def build(builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        scores = builder.emit(relax.op.matmul(given[0], given[1]))
        return relax.op.matmul(builder.emit(relax.op.nn.softmax(scores, axis=-1)), given[2])

    inputs = random_array(ROWS, ELEMENTS), random_array(ELEMENTS, 50, seed=1), random_array(50, WIDTH, seed=2)
    prepared = prepare(one_entry(build, [array.shape for array in inputs], ()), {"main": ()}, HERE)
    assert "attention" in functions_of(prepared)
    powers = np.exp(inputs[0].astype("float64") @ inputs[1])
    expected = powers / powers.sum(axis=-1, keepdims=True) @ inputs[2]
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("change", [hidden_where(float(np.finfo(np.float32).min)), hidden_where(-math.inf), kept_where])
@pytest.mark.quick_cases(2)
def test_scores_are_replaced(change: Changed) -> None:
    shape = (ROWS, 50)
    prepared, inputs = masked_attention(change, shape, 50), inputs_for(shape, 50)
    assert "attention" in functions_of(prepared)
    expected = expected_of(np.where(inputs[3] < 0, -np.inf, products_of(inputs)), inputs[2])
    np.testing.assert_allclose(untried_result(prepared, inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (lambda scores: relax.op.divide(scores, relax.const(np.float32(4))), 0.25),
        (lambda scores: relax.op.multiply(scores, relax.const(np.float32(0.3))), 0.3),
        (lambda scores: relax.op.multiply(relax.const(np.float32(0.3)), scores), 0.3),
    ],
    ids=["divided", "times", "number times"],
)
@pytest.mark.quick_cases(2)
def test_products_are_scaled_before_the_mask(scale: Callable[[Any], Any], expected: float) -> None:
    def change(builder: Any, scores: Any, mask: Any) -> Any:
        return relax.op.add(mask, builder.emit(scale(scores)))

    shape = (BATCH, 1, ROWS, 50)
    prepared, inputs = masked_attention(change, shape, 50), inputs_for(shape, 50)
    assert "attention" in functions_of(prepared)
    wanted = expected_of(products_of(inputs) * expected + inputs[3], inputs[2])
    np.testing.assert_allclose(untried_result(prepared, inputs), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keys", [50, 64])
@pytest.mark.quick_cases(1)
def test_guard_gives_zeros_where_all_keys_are_hidden(keys: int) -> None:
    shape = (BATCH, 1, ROWS, keys)
    prepared, inputs = masked_attention(added, shape, keys, is_guarded=True), inputs_for(shape, keys)
    inputs[3][1, 0, 3] = -np.inf
    found = untried_result(prepared, inputs).reshape(BATCH, HEADS, ROWS, WIDTH)
    assert "attention" in functions_of(prepared)
    assert not found[1, :, 3].any()
    assert np.isfinite(found).all()
    expected = expected_of(products_of(inputs) + inputs[3], inputs[2])
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_guard_keeps_what_is_not_a_number() -> None:
    shape = (BATCH, 1, ROWS, 64)
    prepared, inputs = masked_attention(added, shape, 64, is_guarded=True), inputs_for(shape, 64)
    inputs[0][1, 3] = np.nan
    found = untried_result(prepared, inputs)
    assert np.isnan(found[1, 3]).all()
    assert np.isfinite(np.delete(found, 3, axis=1)).all()


@pytest.mark.parametrize("keys", [50, 64])
@pytest.mark.quick_cases(1)
def test_without_a_guard_hidden_rows_are_not_numbers(keys: int) -> None:
    shape = (ROWS, keys)
    prepared, inputs = masked_attention(added, shape, keys), inputs_for(shape, keys)
    inputs[3][3] = -np.inf
    found = untried_result(prepared, inputs)
    assert np.isnan(found[:, 3]).all()
    assert np.isfinite(np.delete(found, 3, axis=1)).all()


@pytest.mark.parametrize(
    ("change", "mask"),
    [
        (added, (1, HEADS, ROWS, 64)),
        (added, (ROWS, 1)),
        (hidden_where(-100.0), (ROWS, 64)),
        (
            lambda builder, scores, mask: relax.op.multiply(builder.emit(added(builder, scores, mask)), _const(2)),
            (ROWS, 64),
        ),
        (lambda builder, scores, mask: relax.op.add(builder.emit(added(builder, scores, mask)), mask), (ROWS, 64)),
        (lambda _builder, scores, mask: relax.op.multiply(scores, mask), (ROWS, 64)),
    ],
    ids=["other heads of each batch", "one key", "not low enough", "scaled mask", "two masks", "product"],
)
def test_other_masks_stay_as_they_are(change: Changed, mask: tuple[int, ...]) -> None:
    assert "attention" not in functions_of(masked_attention(change, mask, 64))


def test_a_library_gets_all_operators() -> None:
    shape = (BATCH, 1, ROWS, 64)
    prepared, inputs = masked_attention(added, shape, 64, is_guarded=True), inputs_for(shape, 64)
    units = units_of(prepared, lambda _module, _binding: None)
    assert not any(unit.problem for unit in units)
    whole = cut(prepared, units, ["A"] * len(units))
    expected = expected_of(products_of(inputs) + inputs[3], inputs[2])
    np.testing.assert_allclose(result_with_regions(whole, inputs), expected, rtol=1e-4, atol=1e-5)  # type: ignore[call-overload]


def test_candidates_compute_the_same_and_stay_inside() -> None:
    prepared = masked_attention(added, (BATCH, 1, ROWS, 50), 50, is_guarded=True)
    task = next(task for task in model_tasks(prepared) if task.functions == ("attention",))
    module = load_json(task.workload.module_json)
    space = search_space(module, HERE, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    expected = result_of_floats(module, HERE)
    rows = sketch.all_points()[::9]
    assert len(rows) > 1
    for row in rows:
        found = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(found, Scheduled)
        scheduled = scheduler.module_of(found.trace)
        assert bounds_of(scheduled, tvm_target(HERE)).is_proven
        np.testing.assert_allclose(result_of_floats(scheduled, HERE), expected, rtol=1e-4, atol=1e-4)


def _const(number: float) -> Any:
    return relax.const(np.float32(number))
