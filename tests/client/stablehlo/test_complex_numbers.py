"""Complex numbers and Fourier transforms give what JAX gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_equals_jax, imported
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models

RANDOM = np.random.default_rng(0)
X, Y = (jnp.asarray(RANDOM.normal(size=(2, 4, 6)), jnp.float32) for _ in range(2))
SMALL = {
    name: jnp.asarray(RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape), jnp.complex64)
    for name, shape in {"decay": (8,), "into": (6, 8), "out": (8, 6), "table": (64, 32)}.items()
}
DECAY = SMALL["decay"] / jnp.abs(SMALL["decay"]) * 0.9


def parts(value: Any) -> tuple[Any, Any]:
    return value.real, value.imag


def test_arithmetic_equals_jax() -> None:
    def function(x: Any, y: Any) -> Any:
        z, w = x + 1j * y, lax.complex(y, -x)
        quotients = z / w, 1 / z, z / 2
        return [parts(each) for each in (z * w, z - w, -z, jnp.conj(z), z**3, *quotients)]

    assert_equals_jax(function, X, Y)


def test_functions_equal_jax() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x + 1j * y
        powers = z**z, z**2.5, jnp.zeros_like(z) ** z.real.round(), 2**z
        return jnp.abs(z), jnp.angle(z), [parts(each) for each in (jnp.exp(z), jnp.log(z), jnp.sqrt(z), *powers)]

    assert_equals_jax(function, jnp.abs(X), Y)


def test_square_roots_of_real_numbers_equal_jax() -> None:
    numbers = jnp.asarray([-4.0, 0.0, 4.0, -1e-8, -1e8], jnp.float32)
    assert_equals_jax(lambda x: parts(jnp.sqrt(x + 0j)), numbers, tolerance=1e-6)


def test_movements_equal_jax() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x + 1j * y
        both = jnp.concatenate([z, jnp.flip(z, 1)], 1)
        written = lax.dynamic_update_slice(z, both[:, 2:3], (0, 1, 0)).at[:, jnp.asarray([3, 0])].add(1j)
        return [
            parts(each)
            for each in (
                both.T,
                jnp.pad(z, ((0, 0), (1, 2), (0, 0))),
                z[:, jnp.asarray([3, 1, 1])],
                written,
                both[:, ::3],
            )
        ]

    assert_equals_jax(function, X, Y)


def test_reductions_and_choices_equal_jax() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x + 1j * y
        chosen = jnp.where(x > 0, z, y * 1j)
        sums = [parts(each) for each in (z.sum(1), z.mean(), jnp.cumsum(z, 1), z.prod(1), chosen)]
        return sums, z == x + 1j * x, z != z.real

    assert_equals_jax(function, X, Y.at[0].set(X[0]))


def test_products_equal_jax() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x + 1j * y
        into = SMALL["into"]
        line = jnp.convolve(z[0, 0], y[0, 0] - 1j)
        return [parts(each) for each in (z @ into, x @ into, jnp.einsum("bij,bkj->bik", z, z.conj()), line)]

    assert_equals_jax(function, X, Y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: parts(jnp.fft.fft2(x + 1j * y)),
        lambda x, y: parts(jnp.fft.ifft(x + 1j * y, axis=1)),
        lambda x, _: jnp.fft.fft2(x, norm="ortho").real,
        lambda x, _: jnp.abs(jnp.fft.rfft(x, 9)),
        lambda x, y: jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.fft.rfft2(y), (4, 6)),
        lambda x, _: jnp.fft.irfft(jnp.fft.rfft(x[..., :5]) * 1j * jnp.fft.rfftfreq(5), 5),
        lambda x, _: jnp.abs(jax.scipy.signal.stft(x[0], nperseg=4)[2]),
        lambda x, _: jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum())(x),
    ],
    ids=["both axes", "inverse", "orthonormal", "padded", "filter", "odd length", "short time", "gradient"],
)
def test_fourier_transforms_equal_jax(function: Callable[..., Any]) -> None:
    assert_equals_jax(function, X, Y, tolerance=3e-5)


def recurrence(steps: Any) -> Any:
    """A layer of linear recurrent units."""
    into = steps.astype(jnp.complex64) @ SMALL["into"]

    def step(state: Any, given: Any) -> Any:
        state = DECAY * state + given
        return state, state

    return (lax.scan(step, jnp.zeros(8, jnp.complex64), into)[1] @ SMALL["out"]).real


def associated(steps: Any) -> Any:
    """The same layer by an associative scan."""

    def joined(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    into = steps.astype(jnp.complex64) @ SMALL["into"]
    decays = jnp.broadcast_to(DECAY, into.shape)
    return (lax.associative_scan(joined, (decays, into))[1] @ SMALL["out"]).real


@pytest.mark.parametrize("layer", [recurrence, associated])
@pytest.mark.parametrize("steps", [5, 2000])
def test_linear_recurrent_units_equal_jax(layer: Callable[[Any], Any], steps: int) -> None:
    inputs = jnp.asarray(np.random.default_rng(1).normal(size=(steps, 6)), jnp.float32)
    assert_equals_jax(layer, inputs, tolerance=1e-4)


def test_complex_state_passes_loops_and_branches_of_unknown_ways() -> None:
    def function(x: Any) -> Any:
        z = x[0, 0].astype(jnp.complex64) * DECAY[:6]
        z = lax.while_loop(lambda z: jnp.abs(z).max() < 50, lambda z: z * (1.2 + 0.3j) + DECAY[:6], z)
        return parts(lax.cond(x.sum() > 0, lambda z: z * DECAY[:6], lambda z: z + 1j, z))

    assert_equals_jax(function, X, tolerance=1e-4)
    assert_equals_jax(function, -X, tolerance=1e-4)


def test_large_complex_constants_are_two_weights() -> None:
    model = assert_equals_jax(
        lambda x: parts(x @ SMALL["table"]), jnp.asarray(RANDOM.normal(size=(3, 64)), jnp.float32)
    )
    real, imaginary = model.weights["main"]
    np.testing.assert_array_equal(real + 1j * imaginary, SMALL["table"])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (jnp.fft.rfft, ("Results of main are complex numbers", "z.real, z.imag")),
        (lambda x: jnp.tanh(x + 1j).real, ("stablehlo.tanh at", "real and the imaginary parts")),
        (lambda x: jnp.tile(x, 30)[0, 0].astype(jnp.complex64).prod().real, ("stablehlo.reduce at", "at most 64")),
        (lambda x: jnp.fft.fft(jnp.zeros(1759) + x[0, 0, 0]).real, ("stablehlo.fft at", "prime above 1024")),
    ],
    ids=["results", "functions", "products", "lengths"],
)
def test_other_uses_are_refused_with_advice(function: Callable[[Any], Any], words: tuple[str, str]) -> None:
    with pytest.raises(BadInput) as error:
        imported(function, X)
    assert all(each in str(error.value) for each in words)


def test_complex_inputs_are_refused() -> None:
    with pytest.raises(BadInput, match=r"The input z is a tensor<.*complex"):
        imported(lambda z: z.real, SMALL["decay"])
