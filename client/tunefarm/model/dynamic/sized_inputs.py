"""Finds the dynamic dimensions of a model that a user named, and gives its inputs their sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunefarm.frontend.derived_size import derived_size
from tunefarm.frontend.dynamic.entry_import import entry_name
from tunefarm.frontend.dynamic.input_dimensions import InputDimensions
from tunefarm.model.sizes.wanted_buckets import FIELD, WantedBuckets
from tunefarm_schemas.bad_input import BadInput

Shape = tuple[int, ...]
Place = tuple[str, int]
"""An input and an axis."""


@dataclass(frozen=True)
class SizedInputs:
    """The inputs of a model.

    Attributes:
        inputs: with their dimensions.
        given: whole shapes of inputs, for the dimensions that have no buckets.
        places: where each of the wanted dimensions is.
        is_exact: other dimensions may follow from them. Where inputs are padded they may not: what is padded is known
            of the wanted ones only.
    """

    inputs: tuple[InputDimensions, ...]
    given: Mapping[str, Shape]
    places: tuple[tuple[Place, ...], ...]
    is_exact: bool

    def shapes(self, sizes: Shape) -> dict[str, Shape]:
        """The shapes of the inputs that need one, for these sizes of the wanted dimensions.

        Raises:
            BadInput: another dimension has no size.
        """
        size_of = {place: size for size, places in zip(sizes, self.places, strict=True) for place in places}
        named = self._named(size_of) if self.is_exact else {}
        shapes: dict[str, Shape] = {}
        for each in self.inputs:
            extents = [
                size_of.get((each.name, axis), derived_size(size, named) or size if isinstance(size, str) else size)
                for axis, size in enumerate(each.shape)
            ]
            given = self.given.get(each.name)
            if given is not None and len(given) == len(extents):
                extents = [size if (each.name, axis) in size_of else given[axis] for axis, size in enumerate(extents)]
            if all(extent == size for extent, size in zip(extents, each.shape, strict=True)):
                continue
            if missing := [str(axis) for axis, extent in enumerate(extents) if isinstance(extent, str)]:
                problem = f"{each.name} ({_text(each)}) has no size at axis {', '.join(missing)}."
                fix = f"Give them too: --bucket {each.name}.{missing[0]}=N,N, or its whole shape with --shape."
                raise BadInput(FIELD, problem, fix)
            shapes[each.name] = tuple(int(extent) for extent in extents)
        return {**{name: shape for name, shape in self.given.items() if name not in shapes}, **shapes}

    def _named(self, size_of: Mapping[Place, int]) -> dict[str, int]:
        """The sizes of dimensions that have a name."""
        return {
            size: size_of[each.name, axis]
            for each in self.inputs
            for axis, size in enumerate(each.shape)
            if isinstance(size, str) and (each.name, axis) in size_of
        }

    def entries(self, combinations: Sequence[Shape]) -> dict[str, dict[str, Shape]]:
        """The shapes of the inputs of an entry for each combination of sizes, by the name of the entry."""
        return {entry_name(sizes): self.shapes(sizes) for sizes in combinations}


def sized_inputs(inputs: Sequence[InputDimensions], given: Mapping[str, Shape], wanted: WantedBuckets) -> SizedInputs:
    """Find the wanted dimensions.

    Raises:
        BadInput: the model has no such dimension, it is constant, or two names are of one dimension.
    """
    places = tuple(
        tuple(dict.fromkeys(place for name in each.places for place in _places(inputs, name)))
        for each in wanted.dimensions
    )
    every = [place for each in places for place in each]
    if len(set(every)) != len(every):
        twice = next(f"{name}.{axis}" for name, axis in every if every.count((name, axis)) > 1)
        raise BadInput(FIELD, f"{twice} is named twice.", "Give all sizes of a dimension at once.")
    if unknown := sorted(wanted.padding.keys() - {each.name for each in inputs}):
        known = ", ".join(each.name for each in inputs)
        raise BadInput("pad", f"the model has no input {', '.join(unknown)}.", f"Its inputs are {known}.")
    return SizedInputs(tuple(inputs), given, places, wanted.is_exact)


def _places(inputs: Sequence[InputDimensions], name: str) -> list[Place]:
    named = [(each.name, axis) for each in inputs for axis, size in enumerate(each.shape) if size == name]
    if named:
        return named
    owner, dot, axis = name.rpartition(".")
    found = next((each for each in inputs if each.name == owner), None)
    if not dot or found is None or not (axis.isascii() and axis.isdigit() and int(axis) < len(found.shape)):
        fix = f"Name a dimension, or INPUT.AXIS. Its inputs are {'; '.join(f'{i.name} ({_text(i)})' for i in inputs)}."
        raise BadInput(FIELD, f"the model has no dimension {name!r}.", fix)
    size = found.shape[int(axis)]
    if isinstance(size, int) and not found.is_resizable:
        fix = "Export the model with a symbolic dimension there."
        raise BadInput(FIELD, f"axis {axis} of {owner} ({_text(found)}) is constant in the model.", fix)
    return _places(inputs, size) if isinstance(size, str) and size else [(owner, int(axis))]


def _text(each: InputDimensions) -> str:
    return ", ".join(str(size) if size != "" else "?" for size in each.shape)
