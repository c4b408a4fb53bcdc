"""Axes of a module's arguments whose size is known at a call. Imports torch where it is needed only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunefarm.frontend.pytorch.example_inputs import ExampleInputs
from tunefarm_schemas.bad_input import BadInput

FIELD = "dynamic"
_FIX = "Give sizes as a list, or the smallest and the largest as a tuple, such as {'x': {0: (1, 32)}}."


@dataclass(frozen=True)
class DynamicAxis:
    """One dynamic dimension.

    Attributes:
        places: ``NAME.AXIS`` of each argument that has it.
        sizes: those of buckets; empty for a range.
        low: the smallest size.
        high: the largest.
    """

    places: tuple[str, ...]
    sizes: tuple[int, ...]
    low: int
    high: int


def dynamic_axes(dynamic: Mapping[str, Mapping[int, Any]]) -> tuple[DynamicAxis, ...]:
    """The dimensions of ``dynamic``, as ``tunefarm.torch.compile`` takes it: equal values are one dimension.

    Raises:
        BadInput: a value is neither sizes nor a range.
    """
    places: dict[Any, list[str]] = {}
    for name, of_input in dynamic.items():
        for axis, value in of_input.items():
            key = tuple(value) if isinstance(value, list) else value
            places.setdefault((type(value).__name__, key), []).append(f"{name}.{axis}")
    return tuple(_axis(kind, value, tuple(of_value)) for (kind, value), of_value in places.items())


def _axis(kind: str, value: Any, places: tuple[str, ...]) -> DynamicAxis:
    if isinstance(value, tuple) and value and all(isinstance(each, int) and each > 0 for each in value):
        if kind == "list":
            return DynamicAxis(places, tuple(sorted(set(value))), 1, max(value))
        if len(value) == 2:
            return DynamicAxis(places, (), *value)
    low, high = getattr(value, "min", None), getattr(value, "max", None)
    if isinstance(low, int) and isinstance(high, int) and high < 1 << 31:
        return DynamicAxis(places, (), max(low, 1), high)
    raise BadInput(FIELD, f"{', '.join(places)} is {value!r}.", _FIX)


def sized_examples(model: Any, examples: ExampleInputs, axes: Sequence[DynamicAxis]) -> ExampleInputs:
    """Example inputs with at least two rows at each axis: torch takes a size of one for a constant."""
    import torch

    inputs = examples.named(model)
    for each in axes:
        for place in each.places:
            name, _, axis = place.rpartition(".")
            value = inputs.get(name)
            if not isinstance(value, torch.Tensor) or not int(axis) < value.dim():
                fix = f"Its tensors are {', '.join(inputs)}."
                raise BadInput(FIELD, f"the module has no input {place}.", fix)
            if value.shape[int(axis)] == 1:
                inputs[name] = torch.cat([value, value], int(axis))
    return examples.replaced(inputs)


def symbolic_shapes(model: Any, examples: ExampleInputs, axes: Sequence[DynamicAxis]) -> Any:
    """What ``torch.export`` takes as ``dynamic_shapes``; None without axes."""
    from torch.export import Dim

    if not axes:
        return None
    shapes: dict[str, dict[int, Any]] = {name: {} for name in examples.named(model)}
    for number, each in enumerate(axes):
        dimension = Dim(f"dimension{number}", min=1, max=max(each.high, 2))
        for place in each.places:
            name, _, axis = place.rpartition(".")
            shapes[name][int(axis)] = dimension
    return shapes if examples.keywords else tuple(shapes.values())
