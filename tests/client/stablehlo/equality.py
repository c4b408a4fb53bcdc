"""Compares what JAX computes with what the Relax module of the exported program computes."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from tunefarm_search.tvm.loading import load

load()

from tests.client.frontend import untuned  # noqa: E402 - loads TVM without torch
from tunefarm.frontend.relax_model import RelaxModel  # noqa: E402
from tunefarm.frontend.stablehlo.conversion import converted  # noqa: E402
from tunefarm.frontend.stablehlo.parsing import parsed, writer  # noqa: E402

Function = Callable[..., Any]


def of_text(text: str, shapes: Mapping[str, tuple[int, ...]] | None = None) -> RelaxModel:
    return converted(parsed(text.encode()), shapes or {}, writer())


def imported(function: Function, *examples: Any) -> RelaxModel:
    """The model of a JAX function, by its StableHLO text with locations."""
    return of_text(jax.jit(function, keep_unused=True).lower(*examples).as_text(debug_info=True))


def runner(model: RelaxModel, entry: str = "main") -> Callable[..., list[np.ndarray]]:
    """Compile a model without tuning; the result takes its inputs as JAX does."""
    run = untuned.runner(model, entry)
    return lambda *inputs: run(jax.tree.leaves(inputs))


def assert_close(found: list[np.ndarray], expected: Any, tolerance: float) -> None:
    leaves = [np.asarray(each) for each in jax.tree.leaves(expected)]
    assert [(each.shape, each.dtype) for each in found] == [(each.shape, each.dtype) for each in leaves]
    for ours, theirs in zip(found, leaves, strict=True):
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance)


def assert_equals_jax(function: Function, *examples: Any, tolerance: float = 1e-5) -> RelaxModel:
    """Assert that a function gives the same in JAX and in TVM's virtual machine; return its model."""
    model = imported(function, *examples)
    assert_close(runner(model)(*examples), jax.jit(function)(*examples), tolerance)
    return model


def assert_equals_jax_thrice(
    function: Function, inputs: Callable[[np.random.Generator], tuple[Any, ...]], tolerance: float = 1e-4
) -> RelaxModel:
    """The same for a model, compiled once, on three random inputs."""
    examples = [inputs(np.random.default_rng(seed)) for seed in range(3)]
    model = imported(function, *examples[0])
    run, reference = runner(model), jax.jit(function)
    for each in examples:
        assert_close(run(*each), reference(*each), tolerance)
    return model
