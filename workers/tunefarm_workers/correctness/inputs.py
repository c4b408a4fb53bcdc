"""Draws the inputs of candidates: the same numbers for every candidate of a task, in whichever process."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_workers.conversation.argument import Argument, Distribution
from tunefarm_workers.correctness.element_type import is_floating, numpy_type

InputArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

INPUT_SETS = 3
"""How many sets of inputs a new incumbent is checked on."""

_LARGEST_INTEGER = 127


def make_inputs(
    arguments: tuple[Argument, ...],
    *,
    seed: int,
    set_number: int,
    distribution: Distribution,
    specs: Sequence[InputSpec] = (),
    examples: Sequence[InputExample] = (),
) -> tuple[InputArray | None, ...]:
    """Draw one set of inputs, in the order of the arguments; None for an output that is only written.

    ``distribution`` applies to floats without a spec. The specs have passed ``input_check.require_fitting``.
    """
    named = {spec.argument: spec for spec in specs}
    contents = {example.example_digest: example.content for example in examples}
    return tuple(
        _array(
            argument,
            np.random.default_rng((seed, set_number, position)),
            distribution,
            named.get(argument.tensor.name),
            contents,
        )
        if argument.holds_input
        else None
        for position, argument in enumerate(arguments)
    )


def _array(
    argument: Argument,
    generator: np.random.Generator,
    distribution: Distribution,
    spec: InputSpec | None,
    contents: dict[str, bytes],
) -> InputArray:
    if spec is None:
        return _default(argument, generator, distribution)
    tensor = argument.tensor
    if spec.example_digest is not None:
        return np.frombuffer(contents[spec.example_digest], numpy_type(tensor.dtype)).reshape(tensor.shape).copy()
    if spec.kind == "uniform":
        assert spec.low is not None, "a range has two ends"
        assert spec.high is not None, "a range has two ends"
        return generator.uniform(spec.low, spec.high, tensor.shape).astype(numpy_type(tensor.dtype))
    if spec.kind == "integers":
        assert spec.low is not None, "a range has two ends"
        assert spec.high is not None, "a range has two ends"
        return generator.integers(int(spec.low), int(spec.high), tensor.shape).astype(numpy_type(tensor.dtype))
    return _floats(tensor.shape, tensor.dtype, generator, "positive" if spec.kind == "positive" else "normal")


def _default(argument: Argument, generator: np.random.Generator, distribution: Distribution) -> InputArray:
    tensor = argument.tensor
    if is_floating(tensor.dtype):
        return _floats(tensor.shape, tensor.dtype, generator, distribution)
    kind = numpy_type(tensor.dtype)
    if tensor.dtype == "bool":
        return generator.integers(0, 2, tensor.shape).astype(kind)
    if argument.index_extent is not None:
        return generator.integers(0, argument.index_extent, tensor.shape).astype(kind)
    lowest = 0 if kind.kind == "u" else -_LARGEST_INTEGER
    limits = ml_dtypes.iinfo(kind)
    lowest, highest = max(lowest, int(limits.min)), min(_LARGEST_INTEGER, int(limits.max))
    return generator.integers(lowest, highest, tensor.shape, endpoint=True).astype(kind)


def _floats(
    shape: tuple[int, ...], dtype: str, generator: np.random.Generator, distribution: Distribution
) -> InputArray:
    drawn_as: Any = np.float64 if dtype == "float64" else np.float32
    if distribution == "normal":
        return generator.standard_normal(shape, dtype=drawn_as).astype(numpy_type(dtype))
    return (generator.random(shape, dtype=drawn_as) / 2 + 0.5).astype(numpy_type(dtype))
