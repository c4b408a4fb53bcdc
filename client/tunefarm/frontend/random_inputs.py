"""Inputs that models are compared on, the same in each process."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.workload import TensorArgument

Array = npt.NDArray[Any]

INPUT_SETS: Final = 3
"""How many sets of inputs models are compared on."""
_LEAST: Final = 0.1
_HALVES: Final = frozenset({"float16", "bfloat16"})


def framework_inputs(module: Any) -> list[list[Array]]:
    """The sets of inputs of ``main`` of a Relax module, for the framework that its frontend read it from.

    A model in float16 or bfloat16 has none: frameworks round there where they like, and a deep network makes it larger.
    """
    main = module["main"]
    if any(str(each.ty.dtype) in _HALVES for each in main.params):
        return []
    inputs = tuple(
        TensorArgument(name=each.name, shape=tuple(map(int, each.ty.shape)), dtype=str(each.ty.dtype), is_output=False)
        for each in list(main.params)[: int(main.attrs["num_input"])]
    )
    entry = ModelEntry(name="main", inputs=inputs, outputs=(), is_tuple=False)
    return [random_inputs(entry, number) for number in range(INPUT_SETS)]


def random_inputs(entry: ModelEntry, number: int) -> list[Array]:
    """Inputs of an entry: normally distributed, or zeros and ones for integers, which may be indices.

    Those of the last set are positive: roots and logarithms of others are no numbers, which hides what follows.
    """
    generator = np.random.default_rng([number, 7])
    arrays = [random_array(generator, each) for each in entry.inputs]
    if number < INPUT_SETS - 1:
        return arrays
    return [each if each.dtype.kind in "biu" else _positive(each) for each in arrays]


def _positive(array: Array) -> Array:
    return np.asarray(np.abs(array.astype("float64")) + _LEAST).astype(array.dtype)


def random_array(generator: np.random.Generator, argument: TensorArgument) -> Array:
    """One such input."""
    import ml_dtypes  # noqa: F401 - registers its types

    kind = np.dtype(argument.dtype)
    if kind.kind in "biu":
        return np.asarray(generator.integers(0, 2, argument.shape)).astype(kind)
    return np.asarray(generator.standard_normal(argument.shape)).astype(kind)
