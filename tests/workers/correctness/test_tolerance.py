"""Outputs are correct within a small multiple of the untuned function's error."""

import numpy as np
import pytest

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.tolerance import OutputReference, all_finite, worst_error


def reference(own: np.ndarray, double: np.ndarray | None = None) -> OutputReference:
    return OutputReference.of(
        TensorArgument(name="C", shape=own.shape, dtype=str(own.dtype), is_output=True), own, double
    )


TRUTH = np.linspace(-1.0, 3.0, 1000)
PLAIN = TRUTH.astype(np.float32)


def test_untuned_output_is_correct() -> None:
    assert reference(PLAIN, TRUTH).error(PLAIN) <= 1.0


def test_other_rounding_is_correct() -> None:
    assert reference(PLAIN, TRUTH).error(np.nextafter(PLAIN, np.float32(9.0))) <= 1.0


def test_one_wrong_element_is_detected() -> None:
    broken = PLAIN.copy()
    broken[500] += 0.01
    assert reference(PLAIN, TRUTH).error(broken) > 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_element_is_infinitely_wrong(value: float) -> None:
    broken = PLAIN.copy()
    broken[0] = value
    assert reference(PLAIN, TRUTH).error(broken) == float("inf")


def test_tolerance_grows_with_untuned_error() -> None:
    rough = (TRUTH * (1 + 1e-4)).astype(np.float32)
    assert reference(rough, TRUTH).limit > 10 * reference(PLAIN, TRUTH).limit


def test_tolerance_ignores_unrelated_wider_reference() -> None:
    assert reference(PLAIN, TRUTH * 2).error(PLAIN) <= 1.0
    assert reference(PLAIN, TRUTH * 2).error((TRUTH * 2).astype(np.float32)) > 1.0


def test_integers_are_compared_exactly() -> None:
    own = np.arange(10, dtype=np.int32)
    exact = reference(own)
    assert worst_error([exact], [own]) == 0.0
    assert worst_error([exact], [own + (np.arange(10) == 3)]) == float("inf")


def test_all_finite_detects_nan() -> None:
    assert all_finite([PLAIN, np.arange(3)])
    assert not all_finite([PLAIN, np.array([np.nan])])
