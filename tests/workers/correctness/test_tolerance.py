"""Right is what errs little more than the untuned function does."""

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


def test_the_untuned_output_is_right() -> None:
    assert reference(PLAIN, TRUTH).error(PLAIN) <= 1.0


def test_rounding_in_another_order_is_right() -> None:
    assert reference(PLAIN, TRUTH).error(np.nextafter(PLAIN, np.float32(9.0))) <= 1.0


def test_one_wrong_element_among_many_is_wrong() -> None:
    broken = PLAIN.copy()
    broken[500] += 0.01
    assert reference(PLAIN, TRUTH).error(broken) > 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_missing_number_is_infinitely_wrong(value: float) -> None:
    broken = PLAIN.copy()
    broken[0] = value
    assert reference(PLAIN, TRUTH).error(broken) == float("inf")


def test_a_function_that_errs_more_by_itself_allows_more() -> None:
    rough = (TRUTH * (1 + 1e-4)).astype(np.float32)
    assert reference(rough, TRUTH).limit > 10 * reference(PLAIN, TRUTH).limit


def test_a_wider_reference_that_computes_something_else_is_not_believed() -> None:
    assert reference(PLAIN, TRUTH * 2).error(PLAIN) <= 1.0
    assert reference(PLAIN, TRUTH * 2).error((TRUTH * 2).astype(np.float32)) > 1.0


def test_integers_are_exact() -> None:
    own = np.arange(10, dtype=np.int32)
    exact = reference(own)
    assert worst_error([exact], [own]) == 0.0
    assert worst_error([exact], [own + (np.arange(10) == 3)]) == float("inf")


def test_outputs_that_are_not_finite_verify_nothing() -> None:
    assert all_finite([PLAIN, np.arange(3)])
    assert not all_finite([PLAIN, np.array([np.nan])])
