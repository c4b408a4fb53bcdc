"""Attention of a few rows reads keys up to the last visible one, and gives what its operators give."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.attention.test_few_rows import prepared_for, repeated, turned
from tests.search.relax.attention.test_masked_attention import guarded
from tests.search.relax.models import Array, random_array
from tests.search.scheduled import untried_result
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.relax.tasks import tir_functions
from tunefarm_search.tvm.target import host_target

BATCH, HEADS, OF_KEYS, KEYS, ELEMENTS, WIDTH = 2, 4, 2, 96, 32, 16
VISIBLE = 37
LEAST = float(np.finfo(np.float32).min)
Masked = Callable[[Any, Any, Any], Any]
"""Scores of a builder, scores and a mask."""


def added(_builder: Any, scores: Any, mask: Any) -> Any:
    return relax.op.add(scores, mask)


def selected(builder: Any, scores: Any, mask: Any) -> Any:
    is_kept = builder.emit(relax.op.greater_equal(mask, relax.const(np.float32(LEAST / 2))))
    return relax.op.where(is_kept, scores, relax.const(np.float32(LEAST)))


def model(masked: Masked = added, *, is_repeated: bool = True, is_guarded: bool = False) -> Callable[..., Any]:
    """Attention of tokens: heads share keys that are repeated, or are rows of one product."""

    def build(builder: Any, queries: Any, keys: Any, values: Any, mask: Any) -> Any:
        if is_repeated:
            keys, values = repeated(builder, keys), repeated(builder, values)
        else:
            tokens = int(queries.ty.shape[2])
            rows = (BATCH, OF_KEYS, HEADS // OF_KEYS * tokens, ELEMENTS)
            queries = builder.emit(relax.op.reshape(queries, rows))
        scores = builder.emit(relax.op.matmul(queries, turned(builder, keys)))
        scores = builder.emit(relax.op.multiply(scores, relax.const(np.float32(0.25))))
        scores = builder.emit(masked(builder, scores, mask))
        powers = builder.emit(relax.op.nn.softmax(scores, axis=-1))
        powers = builder.emit(guarded(builder, scores, powers)) if is_guarded else powers
        return relax.op.matmul(powers, values)

    return build


def inputs_for(mask: Sequence[int], tokens: int = 1, hidden: float = -math.inf) -> tuple[Array, ...]:
    array, keys = random_array(*mask, seed=9), mask[-1]
    array[..., VISIBLE:] = hidden
    shapes = [(BATCH, HEADS, tokens, ELEMENTS), (BATCH, OF_KEYS, keys, ELEMENTS), (BATCH, OF_KEYS, keys, WIDTH)]
    return (*(random_array(*shape, seed=at) for at, shape in enumerate(shapes)), array)


def expected_of(inputs: Sequence[Array]) -> Array:
    """Of queries of shape (batch, heads, tokens, elements), and keys and values that heads share."""
    queries, *of_keys, mask = inputs
    keys, values = (np.repeat(each, HEADS // OF_KEYS, axis=1).astype("float64") for each in of_keys)
    scores = queries @ keys.transpose(0, 1, 3, 2) * 0.25
    with np.errstate(over="ignore"):
        scores = scores + mask
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    return powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-30) @ values


def assert_equal(prepared: PreparedModel, inputs: Sequence[Array], expected: Array) -> None:
    names = tir_functions(prepared.module)
    assert "rows_attention" in names
    assert not any("softmax" in name or "matmul" in name for name in names)
    found = untried_result(prepared, inputs)
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "mask", [(BATCH, HEADS, 1, KEYS), (BATCH, 1, 1, KEYS), (1, KEYS)], ids=["of heads", "of batches", "of keys"]
)
@pytest.mark.quick_cases(2)
def test_mask_of_one_token_is_added(mask: tuple[int, ...], cores: int) -> None:
    inputs = inputs_for(mask)

    assert_equal(prepared_for(model(), *inputs, target=host_target(cores)), inputs, expected_of(inputs))


@pytest.mark.parametrize("tokens", [8, 1, 2, 4])
@pytest.mark.quick_cases(1)
def test_rows_of_several_tokens_have_masks_of_their_own(tokens: int) -> None:
    inputs = inputs_for((BATCH, 1, tokens, KEYS), tokens)
    inputs[3][:, :, -1, 11:] = -math.inf

    assert_equal(prepared_for(model(), *inputs), inputs, expected_of(inputs))


def test_many_rows_read_visible_keys_of_long_caches() -> None:
    inputs = inputs_for((BATCH, 1, 9, 2048), 9)

    assert_equal(prepared_for(model(), *inputs), inputs, expected_of(inputs))


def test_heads_are_rows_of_one_product() -> None:
    inputs = inputs_for((BATCH, 1, 1, KEYS), hidden=LEAST)

    assert_equal(
        prepared_for(model(selected, is_repeated=False), *inputs),
        inputs,
        expected_of((*inputs[:3], np.where(inputs[3] > LEAST / 2, 0, -math.inf))),
    )


def test_scores_that_a_condition_hides_are_replaced() -> None:
    inputs = inputs_for((BATCH, 1, 1, KEYS), hidden=LEAST)
    mask = np.where(inputs[3] > LEAST / 2, 0, -math.inf)

    assert_equal(prepared_for(model(selected), *inputs), inputs, expected_of((*inputs[:3], mask)))


def test_keys_behind_the_last_visible_one_are_not_read() -> None:
    inputs = inputs_for((1, KEYS))
    expected = expected_of(inputs)
    for each in inputs[1:3]:
        each[:, :, VISIBLE + 16 :] = math.nan

    assert_equal(prepared_for(model(), *inputs), inputs, expected)


@pytest.mark.parametrize("first", [20, 0])
@pytest.mark.quick_cases(1)
def test_hidden_keys_before_the_last_visible_one_count_for_nothing(first: int) -> None:
    inputs = inputs_for((1, KEYS))
    inputs[3][:, first : first + 16] = -math.inf

    assert_equal(prepared_for(model(), *inputs), inputs, expected_of(inputs))


def test_row_without_visible_keys_is_zeros_under_a_guard() -> None:
    inputs = inputs_for((BATCH, 1, 1, KEYS))
    inputs[3][1] = -math.inf
    expected = expected_of(inputs)
    assert not expected[1].any()

    assert_equal(prepared_for(model(is_guarded=True), *inputs), inputs, expected)


def test_row_without_visible_keys_is_the_average_of_all_values_where_scores_are_replaced() -> None:
    inputs = inputs_for((BATCH, 1, 1, KEYS), hidden=LEAST)
    inputs[3][1] = LEAST
    expected = expected_of((*inputs[:3], np.where(inputs[3] > LEAST / 2, 0, -math.inf)))
    expected[1] = np.repeat(inputs[2][1], HEADS // OF_KEYS, axis=0).mean(axis=1, keepdims=True)

    assert_equal(prepared_for(model(selected), *inputs), inputs, expected)


others = pytest.mark.parametrize(
    "inputs",
    [inputs_for((1, 50)), inputs_for((1, 48)), inputs_for((1, KEYS), tokens=9)],
    ids=["no whole vectors", "few keys", "many rows"],
)


@others
def test_other_attention_keeps_its_functions(inputs: Sequence[Array]) -> None:
    assert "rows_attention" not in tir_functions(prepared_for(model(), *inputs).module)


@others
@pytest.mark.extended
def test_functions_of_other_attention_compute_the_same(inputs: Sequence[Array]) -> None:
    prepared = prepared_for(model(), *inputs)
    np.testing.assert_allclose(untried_result(prepared, inputs), expected_of(inputs), rtol=1e-4, atol=1e-5)
