"""The matrices give convolutions in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from tests.search.relax.models import random_array
from tests.search.relax.products.winograd.convolutions import convolution
from tunefarm_search.relax.products.winograd.matrices import KERNEL, WINOGRADS, Winograd

tiles = pytest.mark.parametrize("winograd", WINOGRADS, ids=lambda each: f"{each.results}x{each.results}")


@tiles
def test_matrices_convolve_in_exact_arithmetic(winograd: Winograd) -> None:
    of_inputs, of_results = (_exact(rows) for rows in (winograd.of_inputs, winograd.of_results))
    of_kernel = _exact(winograd.of_kernel)
    generator = np.random.default_rng(1)
    inputs = _exact(generator.integers(-9, 9, (winograd.inputs, 1)).tolist())
    kernel = _exact(generator.integers(-9, 9, (KERNEL, 1)).tolist())
    found = of_results @ ((of_kernel @ kernel) * (of_inputs @ inputs))
    assert found[:, 0].tolist() == [
        sum(inputs[at + step, 0] * kernel[step, 0] for step in range(KERNEL)) for at in range(winograd.results)
    ]


@tiles
def test_transformed_kernels_give_the_convolution_of_a_tile(winograd: Winograd) -> None:
    data, weights = random_array(1, 1, winograd.inputs, winograd.inputs), random_array(1, 1, 3, 3)
    kernels = winograd.kernels(weights.transpose(2, 3, 1, 0))
    assert kernels.shape == (winograd.inputs**2, 1, 1)
    of_inputs, of_results = np.array(winograd.of_inputs), np.array(winograd.of_results)
    places = of_inputs @ data[0, 0] @ of_inputs.T * kernels.reshape(winograd.inputs, winograd.inputs)
    expected = convolution(data, weights, (0, 0, 0, 0))[0, 0]
    np.testing.assert_allclose(of_results @ places @ of_results.T, expected, rtol=1e-5, atol=1e-5)


def _exact(rows: object) -> np.ndarray:
    return np.vectorize(lambda each: Fraction(each).limit_denominator(24), otypes=[object])(np.array(rows, object))
