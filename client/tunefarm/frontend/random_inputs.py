"""Inputs that models are compared on, the same in each process."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm.frontend.relax_model import ModelReference
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.workload import TensorArgument

Array = npt.NDArray[Any]
Run = Callable[[list[Array]], tuple[Array, ...]]
"""Runs a model on inputs; returns its outputs."""

INPUT_SETS: Final = 3
"""How many sets of inputs models are compared on."""
_LEAST: Final = 0.1
_HALVES: Final = frozenset({"float16", "bfloat16"})


def framework_results(module: Any, opened: Callable[[], Run]) -> tuple[ModelReference, ...]:
    """What the framework that a frontend read ``main`` of a Relax module from computes for three inputs.

    Empty if it is not installed, or refuses the model or the inputs, such as an index out of bounds, and for a model in
    float16 or bfloat16: frameworks round there where they like, and a deep network makes it larger.

    Args:
        module: the Relax module.
        opened: loads the model, and returns what runs it.
    """
    main = module["main"]
    if any(str(each.ty.dtype) in _HALVES for each in main.params):
        return ()
    inputs = tuple(
        TensorArgument(name=each.name, shape=tuple(map(int, each.ty.shape)), dtype=str(each.ty.dtype), is_output=False)
        for each in list(main.params)[: int(main.attrs["num_input"])]
    )
    entry = ModelEntry(name="main", inputs=inputs, outputs=(), is_tuple=False)
    try:
        run = opened()
        sets = [random_inputs(entry, number) for number in range(INPUT_SETS)]
        return tuple(ModelReference(entry.name, tuple(inputs), run(inputs)) for inputs in sets)
    except Exception:  # noqa: BLE001 - frameworks raise whatever they like
        return ()


def random_inputs(entry: ModelEntry, number: int) -> list[Array]:
    """Inputs of an entry: normally distributed, or zeros and ones for integers, which may be indices.

    Those of the last set are positive: roots and logarithms of others are no numbers, which hides what follows. A truth
    value by itself, which may choose what is computed, is true in one of the first two sets and false in the other.
    """
    generator = np.random.default_rng([number, 7])
    arrays = [random_array(generator, each) for each in entry.inputs]
    if number == 1 and any(map(_is_choice, arrays)):
        chosen = random_inputs(entry, 0)
        arrays = [~first if _is_choice(each) else each for first, each in zip(chosen, arrays, strict=True)]
    if number < INPUT_SETS - 1:
        return arrays
    return [each if each.dtype.kind in "biu" else _positive(each) for each in arrays]


def _is_choice(array: Array) -> bool:
    return array.dtype == np.bool_ and array.size == 1


def _positive(array: Array) -> Array:
    return np.asarray(np.abs(array.astype("float64")) + _LEAST).astype(array.dtype)


def random_array(generator: np.random.Generator, argument: TensorArgument) -> Array:
    """One such input."""
    import ml_dtypes  # noqa: F401 - registers its types

    kind = np.dtype(argument.dtype)
    if kind.kind in "biu":
        return np.asarray(generator.integers(0, 2, argument.shape)).astype(kind)
    return np.asarray(generator.standard_normal(argument.shape)).astype(kind)
