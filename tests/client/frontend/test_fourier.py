"""Fourier transforms as products give what NumPy's give, for any length."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array, run
from tests.search.scheduled import build_quickly
from tunefarm.frontend.expressions.complex_numbers import ComplexParts
from tunefarm.frontend.expressions.fourier import from_spectrum, spectrum, transformed
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)
LENGTHS = {"odd": 15, "one": 1, "two factors": 600, "even": 12, "prime": 521, "three factors": 2 * 521}
QUICK = 3
"""The odd length, and those of two and of three factors."""


def computed(transform: Callable[..., Any], *inputs: Any) -> Any:
    """What a function of Relax expressions and ``emit`` gives."""

    def build(builder: relax.BlockBuilder, given: Any, _weights: Any) -> Any:
        found = transform(*given, builder.emit)
        return relax.Tuple([found.real, found.imaginary]) if isinstance(found, ComplexParts) else found

    prepared = prepare(one_entry(build, [each.shape for each in inputs], ()), {"main": ()}, HERE)
    return run(virtual_machine(lower(prepared.module, HERE), HERE, build_quickly), inputs)


def require_near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("extent", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.quick_cases(QUICK)
def test_transforms_of_any_length_are_those_of_numpy(extent: int) -> None:
    real, imaginary = random_array(2, extent, 3, seed=1), random_array(2, extent, 3, seed=2)
    number = real.astype("float64") + 1j * imaginary

    def forward(x: Any, y: Any, emit: Any) -> Any:
        return transformed(ComplexParts(x, y), 1, 0.5, emit, is_forward=True)

    def backward(x: Any, y: Any, emit: Any) -> Any:
        return transformed(ComplexParts(x, y), 1, 1.0, emit, is_forward=False)

    found = computed(forward, real, imaginary)
    require_near(found[0] + 1j * found[1], 0.5 * np.fft.fft(number, axis=1))
    found = computed(backward, real, imaginary)
    require_near(found[0] + 1j * found[1], extent * np.fft.ifft(number, axis=1))


@pytest.mark.parametrize("extent", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.quick_cases(QUICK)
def test_transforms_of_real_numbers_are_those_of_numpy(extent: int) -> None:
    data = random_array(3, extent, seed=1)
    found = computed(lambda x, emit: spectrum(x, -1, 1.0, emit, is_half=True), data)
    half = np.fft.rfft(data.astype("float64"))
    require_near(found[0] + 1j * found[1], half)
    again = computed(
        lambda x, y, emit: from_spectrum(ComplexParts(x, y), -1, extent, 1.0 / extent, emit),
        half.real.astype("float32"),
        half.imag.astype("float32"),
    )
    require_near(again, data)


def test_frequencies_without_an_imaginary_part_have_none() -> None:
    """Else the phase of a negative number would be -pi or pi by chance."""
    _, imaginary = computed(lambda x, emit: spectrum(x, -1, 1.0, emit, is_half=True), random_array(4, 48, seed=3))
    assert not imaginary[:, [0, -1]].any()
    assert not np.signbit(imaginary[:, [0, -1]]).any()
