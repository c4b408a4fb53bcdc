"""What counts as the same result as that of a reference."""

import numpy as np
import pytest

from tunefarm.model.relative_error import error_beside_exact, relative_error

NAN, INF = float("nan"), float("inf")


def floats(*numbers: float) -> np.ndarray:
    return np.asarray(numbers, "float32")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (floats(1, NAN), floats(1, NAN)),
        (floats(INF, -INF, 2), floats(INF, -INF, 2)),
        (floats(1, 2.000001), floats(1, 2)),
        (np.array([], "float32"), np.array([], "float32")),
        (np.arange(20_000), np.where(np.arange(20_000) == 7, 8, np.arange(20_000))),
        (np.array([3, 4]), np.array([3, 4])),
    ],
    ids=["no number", "infinities", "rounded", "empty", "one near tie of many", "integers"],
)
def test_results_that_are_the_same(found: np.ndarray, expected: np.ndarray) -> None:
    assert relative_error(found, expected) <= 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (floats(1, INF), floats(1, NAN)),
        (floats(-INF, 1), floats(INF, 1)),
        (floats(1, 2), floats(1, NAN)),
        (floats(1.1), floats(1)),
        (np.array([3, 4]), np.array([3, 5])),
        (np.array([True]), np.array([False])),
        (np.zeros((2, 0)), np.zeros((0, 2))),
    ],
    ids=["infinity for no number", "other sign", "number for none", "far off", "integer", "truth", "shape"],
)
def test_results_that_are_not(found: np.ndarray, expected: np.ndarray) -> None:
    assert relative_error(found, expected) > 1


def test_bytes_of_quantized_models_may_differ_by_a_step() -> None:
    found, expected = np.array([3, 200], "uint8"), np.array([4, 199], "uint8")
    assert relative_error(found, expected, is_quantized=True) <= 1 < relative_error(found, expected)
    assert relative_error(np.array([3], "uint8"), np.array([5], "uint8"), is_quantized=True) > 1


def boxes_and_scores() -> np.ndarray:
    generator = np.random.default_rng(0)
    boxes, scores = 640 * generator.random((1, 4, 100)), generator.random((1, 8, 100))
    return np.concatenate([boxes, scores], 1).astype("float32")


def masked_logits() -> np.ndarray:
    """Causal, with three positions of padding, whose columns are masked: most elements are."""
    generator = np.random.default_rng(0)
    logits, positions = generator.standard_normal((2, 24, 24)), np.arange(24)
    is_masked = (positions[None, :] > positions[:, None]) | (positions[None, :] >= 21)
    return np.where(is_masked, -1e9, logits).astype("float32")


def test_wrong_scores_beside_boxes_are_found() -> None:
    expected = boxes_and_scores()
    found = expected.copy()
    found[:, 4:] += 0.2
    assert relative_error(found, expected) > 1
    assert relative_error(np.swapaxes(found, 1, 2), np.swapaxes(expected, 1, 2)) > 1
    found[:, 4:] = expected[:, 4:] * (1 + 1e-3)
    assert relative_error(found, expected) <= 1


@pytest.mark.parametrize("mask", [-1e9, -1e4, float(np.finfo("float32").min)])
def test_wrong_logits_beside_a_mask_are_found(mask: float) -> None:
    expected = masked_logits()
    expected[expected == np.float32(-1e9)] = mask
    found = np.where(expected == np.float32(mask), expected, expected + np.float32(0.1))
    assert relative_error(found, expected) > 1
    row = expected[0, 20].reshape(1, 24)
    assert relative_error(np.where(row == np.float32(mask), row, row + np.float32(0.1)), row) > 1
    assert relative_error(expected + np.float32(1e-4), expected) <= 1


def test_sums_that_cancel_differ_by_rounding() -> None:
    generator = np.random.default_rng(0)
    expected = generator.standard_normal((4, 6, 50)).astype("float32")
    found = expected + 1e-6 * generator.standard_normal(expected.shape).astype("float32")
    expected[:, 2] *= 1e-6
    found[:, 2] = 1e-6 * generator.standard_normal((4, 50))
    expected[:, 3], found[:, 3] = 0, found[:, 2]
    assert relative_error(found, expected) <= 1
    large = np.where(np.arange(6)[:, None] < 1, 1e6, 1.0).astype("float32") * expected
    assert relative_error(large + np.where(np.arange(6)[:, None] < 1, 0.0, 0.3).astype("float32"), large) <= 1


def test_small_slices_differ_by_as_much_as_large_ones() -> None:
    """As where a deep network adds up rounding, and the inputs of a batch hardly change the results."""
    generator = np.random.default_rng(0)
    expected = np.tile(generator.standard_normal(1000), (16, 1)).astype("float32")
    found = expected + np.float32(1e-3) * generator.standard_normal(expected.shape).astype("float32")
    assert relative_error(found, expected) <= 1


def test_zeros_differ_by_nothing() -> None:
    zeros = np.zeros((3, 20), "float32")
    assert relative_error(zeros, zeros) == 0
    assert relative_error(zeros[0, 0, ...], zeros[0, 0, ...]) == 0
    assert relative_error(zeros + np.float32(1e-3), zeros) > 1


@pytest.mark.parametrize("kind", ["float16", "int8 steps"])
def test_coarse_numbers_differ_by_their_steps_in_any_slice(kind: str) -> None:
    expected = boxes_and_scores()
    if kind == "float16":
        expected = expected.astype("float16")
    found = expected.copy()
    found[:, 4:] += np.asarray(640 * 8e-3, expected.dtype)
    assert relative_error(found, expected, is_quantized=kind != "float16") <= 1


def test_doubles_are_compared_as_doubles_in_models_with_bytes() -> None:
    expected = np.array([1.0, 2.0])
    assert relative_error(expected + 1e-3, expected, is_quantized=True) > 1


def test_halves_may_be_as_far_from_exact_results_as_the_frameworks() -> None:
    exact, rounding = np.linspace(-1, 1, 64, dtype="float32"), 0.05 * np.sin(np.arange(64, dtype="float32"))
    expected, alike, wrong, random = (
        (exact + added).astype("float16") for added in (rounding, -rounding, 3 * rounding[::-1], 50 * rounding)
    )
    assert relative_error(alike, expected) > 1
    assert error_beside_exact(alike, expected, exact.astype("float16")) <= 1
    assert error_beside_exact(wrong, expected, exact.astype("float16")) > 1
    assert error_beside_exact(alike, random, exact.astype("float16")) > 1


def test_frameworks_that_are_exact_are_followed() -> None:
    exact = np.linspace(-1, 1, 64, dtype="float16")
    assert error_beside_exact(exact + np.float16(0.03), exact, exact) > 1
