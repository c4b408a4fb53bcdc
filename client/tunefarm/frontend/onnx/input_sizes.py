"""Gives every dimension of the inputs of an ONNX model a size."""

from collections.abc import Mapping, Sequence
from typing import Any

from tunefarm.frontend.derived_size import derived_size
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

Shape = tuple[int, ...]


def fix_input_sizes(inputs: Sequence[Any], shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """Write sizes into the inputs of a graph, whose ``ValueInfoProto`` change.

    A dimension that has a name in the model needs one size: where it occurs again, it has the same. Names such as
    ``past_length + length`` follow from those of others.

    Args:
        inputs: of the graph, without its weights.
        shapes: the sizes that the user gave, by the name of the input.

    Returns:
        A note for each dimension that was fixed.

    Raises:
        BadInput: an input has no size, or ``shapes`` contradicts the model.
    """
    _refuse_unknown(inputs, shapes)
    sizes: dict[str, int] = {}
    for each in inputs:
        if each.name in shapes:
            _check_given(each, shapes[each.name], sizes)
    notes: list[str] = []
    missing: dict[str, str] = {}
    noted: set[str] = set()
    for each in inputs:
        tensor = each.type.tensor_type
        if each.type.WhichOneof("value") != "tensor_type":
            raise BadInput("model", f"Input {visible_line(each.name)} is not a tensor.", "Export a model of tensors.")
        if each.name in shapes:
            notes += _note(each, shapes[each.name], noted)
            _write(tensor, shapes[each.name])
        elif not tensor.HasField("shape"):
            missing[each.name] = f"{visible_line(each.name)} has no shape at all"
        else:
            # A dimension that has a name is named once: with its size in one input it has one in all.
            missing |= {key: text for key, text in _write_named(each, sizes).items() if key not in missing}
    if missing:
        raise BadInput("shapes", f"Sizes are missing: {'; '.join(missing.values())}.", _how(inputs))
    return tuple(notes)


def _refuse_unknown(inputs: Sequence[Any], shapes: Mapping[str, Shape]) -> None:
    known = [each.name for each in inputs]
    unknown = [name for name in shapes if name not in known]
    if unknown:
        problem = f"The model has no input {', '.join(visible_line(name) for name in unknown)}."
        fix = f"Its inputs are {', '.join(visible_line(name) for name in known) or 'none'}."
        raise BadInput("shapes", problem, fix)


def _check_given(value: Any, given: Shape, sizes: dict[str, int]) -> None:
    name, tensor = visible_line(value.name), value.type.tensor_type
    if any(size < 1 for size in given):
        raise BadInput("shapes", f"Input {name} has a size below 1: {given}.", "Give positive sizes.")
    if not tensor.HasField("shape"):
        return
    dimensions = tensor.shape.dim
    if len(dimensions) != len(given):
        problem = f"Input {name} has {len(dimensions)} dimensions ({_text(value)}), and {len(given)} sizes were given."
        raise BadInput("shapes", problem, "Give one size for each.")
    for index, (dimension, size) in enumerate(zip(dimensions, given, strict=True)):
        if dimension.HasField("dim_value") and dimension.dim_value > 0:
            expected: int | None = dimension.dim_value
        elif dimension.dim_param:
            expected = sizes.setdefault(dimension.dim_param, size)
        else:
            expected = None
        if expected not in {None, size}:
            problem = f"Dimension {index} of input {name} ({_text(value)}) is {expected}, not {size}."
            raise BadInput("shapes", problem, "Give the sizes that the model has, or export it again.")


def _note(value: Any, given: Shape, noted: set[str]) -> list[str]:
    """What the sizes of an input are, but for dimensions that are in ``noted``, which gets those that have a name."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return [f"Input {visible_line(value.name)} has the given shape {given}."]
    notes = []
    for index, (dimension, size) in enumerate(zip(tensor.shape.dim, given, strict=True)):
        if dimension.dim_value > 0 or dimension.dim_param in noted:
            continue
        called = visible_line(dimension.dim_param or str(index))
        notes.append(f"Dimension {called} of input {visible_line(value.name)} is {size}.")
        noted.update(filter(None, [dimension.dim_param]))
    return notes


def _write(tensor: Any, sizes: Shape) -> None:
    tensor.shape.SetInParent()
    del tensor.shape.dim[:]
    for size in sizes:
        tensor.shape.dim.add().dim_value = size


def _write_named(value: Any, sizes: Mapping[str, int]) -> dict[str, str]:
    """Write the sizes that follow from other inputs; those that do not, by their name or that of the input."""
    missing = {}
    for index, dimension in enumerate(value.type.tensor_type.shape.dim):
        if dimension.dim_value > 0:
            continue
        if size := derived_size(dimension.dim_param, sizes):
            dimension.dim_value = size
        else:
            called = f" ({visible_line(dimension.dim_param)})" if dimension.dim_param else ""
            key = dimension.dim_param or f"{value.name}.{index}"
            missing[key] = f"dimension {index}{called} of input {visible_line(value.name)}"
    return missing


def _how(inputs: Sequence[Any]) -> str:
    example = next(each for each in inputs if _is_free(each))
    sizes = ",".join(str(dim.dim_value or 1) for dim in example.type.tensor_type.shape.dim) or "1,3,224,224"
    return f"Give the whole shape of each such input, such as {visible_line(example.name)}={sizes}."


def _is_free(value: Any) -> bool:
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or any(dim.dim_value <= 0 for dim in tensor.shape.dim)


def _text(value: Any) -> str:
    dimensions = value.type.tensor_type.shape.dim
    return ", ".join(
        str(dim.dim_value) if dim.dim_value > 0 else visible_line(dim.dim_param or "?") for dim in dimensions
    )
