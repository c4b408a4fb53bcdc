"""Finds the axes of inputs and outputs that have the dynamic dimensions, from the shapes of several sizes."""

from collections.abc import Mapping, Sequence

from tunefarm.model.sizes.size_dispatch import Shape
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.dynamic_shape import DimensionPlace
from tunefarm_schemas.tuning.model import ModelEntry

Places = tuple[DimensionPlace, ...]
EXACT_FIX = "Serve exact sizes: name each size, and add --exact-buckets (exact_buckets=True in Python)."


def input_places(entry: ModelEntry, places: Sequence[tuple[str, int]]) -> Places:
    """Inputs with an axis, by name, as positions.

    Raises:
        BadInput: the converted model has no such input.
    """
    positions = {each.name: at for at, each in enumerate(entry.inputs)}
    if missing := [name for name, _ in places if name not in positions]:
        problem = f"the converted model has no input {missing[0]!r}, only {', '.join(positions)}."
        raise BadInput("bucket", problem, "Export the model without that input, or with another name.")
    return tuple(DimensionPlace(tensor=positions[name], axis=axis) for name, axis in places)


def output_places(entries: Mapping[Shape, ModelEntry], names: Sequence[str]) -> list[Places]:
    """The axes of outputs that are proportional to each dimension.

    Args:
        entries: by the sizes of the dimensions.
        names: of the dimensions.

    Raises:
        BadInput: outputs have extents that change and are not a multiple of one dimension, or of which one is unknown.
    """
    found: list[list[DimensionPlace]] = [[] for _ in names]
    shapes = {sizes: [each.shape for each in entry.outputs] for sizes, entry in entries.items()}
    if len({tuple(map(len, each)) for each in shapes.values()}) != 1:
        raise BadInput("bucket", "the ranks of outputs depend on the sizes.", EXACT_FIX)
    for tensor, shape in enumerate(next(iter(shapes.values()))):
        for axis in range(len(shape)):
            extents = {sizes: of_entry[tensor][axis] for sizes, of_entry in shapes.items()}
            if len(set(extents.values())) == 1:
                continue
            at, factor = _proportional(extents, len(names), f"axis {axis} of output {tensor}", names)
            found[at].append(DimensionPlace(tensor=tensor, axis=axis, factor=factor))
    return [tuple(each) for each in found]


def _proportional(extents: Mapping[Shape, int], count: int, where: str, names: Sequence[str]) -> tuple[int, int]:
    found = []
    for at in range(count):
        factors = {extent / sizes[at] for sizes, extent in extents.items()}
        factor = factors.pop()
        if not factors and factor >= 1 and factor == int(factor):
            found.append((at, int(factor)))
    if len(found) == 1:
        return found[0]
    if not found:
        problem = f"{where} is {sorted(set(extents.values()))}, which is not a multiple of {' or of '.join(names)}."
        raise BadInput("bucket", problem, EXACT_FIX)
    alike = " or ".join(names[at] for at, _ in found)
    fix = "If they always have one size, name them together: --bucket NAME,NAME=N. Else give one of them two sizes."
    raise BadInput("bucket", f"{where} may be of {alike}: the model cannot be read for different sizes of them.", fix)
