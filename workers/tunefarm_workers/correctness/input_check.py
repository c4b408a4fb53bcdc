"""Checks input specs against a function's arguments."""

from collections.abc import Iterator, Sequence
from typing import Final

import ml_dtypes
import numpy as np

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.input_spec import MAX_EXAMPLE_BYTES, InputExample, InputSpec
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.correctness.element_type import is_floating, numpy_type

FIELD: Final = "input"
_EXACT_INTEGERS: Final = float(1 << 53)


def require_fitting(
    arguments: Sequence[Argument], specs: Sequence[InputSpec], examples: Sequence[InputExample]
) -> None:
    """Check the specs that name one of ``arguments``; the others may belong to another task.

    Raises:
        BadInput: a parameter is named twice or not read by the function, or a spec does not fit its type, its shape, or
            the tensor that it indexes.
    """
    if sum(len(example.content) for example in examples) > MAX_EXAMPLE_BYTES:
        fix = "Give an example only for arguments whose values matter."
        raise BadInput(FIELD, f"the examples take more than {MAX_EXAMPLE_BYTES >> 20} MiB.", fix)
    contents = {example.example_digest: example.content for example in examples}
    by_name = {argument.tensor.name: argument for argument in arguments}
    seen: set[str] = set()
    for spec in specs:
        if spec.argument in seen:
            raise BadInput(FIELD, f"{spec.argument} is given twice.", "Give each argument once.")
        seen.add(spec.argument)
        if spec.argument in by_name:
            _require_one(by_name[spec.argument], spec, contents)


def require_names(arguments: Sequence[Sequence[Argument]], specs: Sequence[InputSpec]) -> None:
    """Raise ``BadInput`` for a spec whose argument no function has."""
    present = dict.fromkeys(argument.tensor.name for function in arguments for argument in function)
    for spec in specs:
        if spec.argument not in present:
            problem = f"the function has no argument {spec.argument[:80]!r}."
            raise BadInput(FIELD, problem, f"Its arguments are {', '.join(present)}.")


def _require_one(argument: Argument, spec: InputSpec, contents: dict[str, bytes]) -> None:
    name, dtype = argument.tensor.name, argument.tensor.dtype
    if not argument.holds_input:
        raise BadInput(FIELD, f"{name} is an output that the function does not read.", "Leave it out.")
    if spec.kind in {"normal", "positive", "uniform"} and not is_floating(dtype):
        fix = f"Write {name}=integers:LOW:HIGH, or {name}=@FILE.npy."
        raise BadInput(FIELD, f"{name} is of {dtype}, but {spec.kind} draws fractions.", fix)
    if spec.example_digest is not None:
        content = contents.get(spec.example_digest)
        if content is None:
            raise BadInput(FIELD, f"the example for {name} is missing.", "Give its content with the job.")
        _require_example(argument, content)
    elif spec.low is not None and spec.high is not None:
        maximum = spec.high if spec.kind == "uniform" else spec.high - 1
        _require_range(argument, spec.low, maximum)


def _require_example(argument: Argument, content: bytes) -> None:
    tensor = argument.tensor
    kind = numpy_type(tensor.dtype)
    if len(content) != tensor.elements * kind.itemsize:
        wanted = f"{tensor.dtype} of shape {tensor.shape}, {tensor.elements * kind.itemsize} bytes"
        raise BadInput(FIELD, f"the example for {tensor.name} has {len(content)} bytes.", f"Give {wanted}.")
    values = np.frombuffer(content, kind)
    if not values.size:
        return
    if is_floating(tensor.dtype):
        if not np.isfinite(values.astype(np.float64)).all():
            problem = f"the example for {tensor.name} holds numbers that are not finite."
            raise BadInput(FIELD, problem, "Results of such numbers cannot be compared; give finite ones.")
        return
    _require_range(argument, int(values.min()), int(values.max()))


def _require_range(argument: Argument, minimum: float, maximum: float) -> None:
    name, dtype = argument.tensor.name, argument.tensor.dtype
    for first, last, what in _bounds(argument):
        if minimum < first or maximum > last:
            problem = f"{name} would hold numbers from {minimum:.17g} to {maximum:.17g}, outside of {what}."
            raise BadInput(FIELD, problem, f"Stay within {first:.17g} to {last:.17g}.")
    if not is_floating(dtype) and max(abs(minimum), abs(maximum)) > _EXACT_INTEGERS:
        raise BadInput(FIELD, f"{name} would hold numbers beyond 2**53.", "Give smaller ones.")


def _bounds(argument: Argument) -> Iterator[tuple[float, float, str]]:
    dtype = argument.tensor.dtype
    if dtype == "bool":
        yield 0, 1, "what a bool holds"
    elif is_floating(dtype):
        yield float(ml_dtypes.finfo(numpy_type(dtype)).min), float(ml_dtypes.finfo(numpy_type(dtype)).max), dtype
    else:
        limits = ml_dtypes.iinfo(numpy_type(dtype))
        yield int(limits.min), int(limits.max), dtype
    if argument.index_extent is not None:
        yield 0, argument.index_extent - 1, "the tensor that it addresses"
