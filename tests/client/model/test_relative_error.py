"""What counts as the same result as that of a reference."""

import numpy as np
import pytest

from tunefarm.model.compare_child import relative_error

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
