"""Divisions by the constant zero, which TVM does not compile, give infinities."""

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target


@pytest.mark.parametrize(("divisor", "sign"), [(0.0, 1), (-0.0, -1)])
def test_floats_divided_by_zero_are_infinite(divisor: float, sign: int) -> None:
    given = np.array([2, -3, 0, np.nan, np.inf], "float32")
    zero = relax.const(divisor, "float32")
    module = one_entry(lambda _builder, x, _weights: relax.op.divide(x[0], zero), [(5,)], [])

    found = result_of(prepare(module, {"main": ()}, host_target(1)), (given,))

    infinity = sign * np.inf
    np.testing.assert_array_equal(found, np.array([infinity, -infinity, np.nan, np.nan, infinity]))
