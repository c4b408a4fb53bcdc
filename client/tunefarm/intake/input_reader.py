"""Converts input requests into specs that fit the functions. Called only in a confined child."""

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tunefarm.intake.intake_request import InputRequest
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.serialization import load_json
from tunefarm_workers.builder.signature import arguments_of
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.correctness.element_type import numpy_type
from tunefarm_workers.correctness.input_check import require_fitting, require_names

FIELD: Final = "input"


def read_inputs(
    requests: Sequence[InputRequest], workloads: Sequence[Workload]
) -> tuple[tuple[InputSpec, ...], tuple[InputExample, ...]]:
    """The input specs and their examples.

    Raises:
        BadInput: a name matches no function's argument, or a shape, a type or a range does not fit an argument.
    """
    functions = [arguments_of(load_json(workload.module_json)) for workload in workloads]
    specs, examples = [], []
    for request in requests:
        if request.npy is None:
            specs.append(InputSpec(argument=request.argument, kind=request.kind, low=request.low, high=request.high))
            continue
        named = [
            argument for function in functions for argument in function if argument.tensor.name == request.argument
        ]
        example = InputExample(content=_elements(request, named[0]) if named else b"")
        digest = example.example_digest
        specs.append(InputSpec(argument=request.argument, kind="example", example_digest=digest))
        examples.append(example)
    require_names(functions, specs)
    for function in functions:
        require_fitting(function, specs, examples)
    return tuple(specs), tuple(examples)


def _elements(request: InputRequest, argument: Argument) -> bytes:
    array, name = _array(request), argument.tensor.name
    wanted = numpy_type(argument.tensor.dtype)
    if array.shape != argument.tensor.shape:
        problem = f"the example for {name} has shape {array.shape}, its argument {argument.tensor.shape}."
        raise BadInput(FIELD, problem, f"Save an array of shape {argument.tensor.shape}.")
    # NumPy files cannot store types such as bfloat16: users give these as float32.
    has_no_file_form = wanted.kind == "V" or not wanted.isbuiltin
    given = array.dtype.newbyteorder("=")
    if given != wanted and not (has_no_file_form and given == np.float32):
        if argument.tensor.dtype == "bool" and given == np.bool_:
            return np.ascontiguousarray(array).astype(wanted).tobytes()
        usual = "float32, which is rounded," if has_no_file_form else argument.tensor.dtype
        problem = f"the example for {name} has type {array.dtype}, its argument {argument.tensor.dtype}."
        raise BadInput(FIELD, problem, f"Save an array of {usual} instead.")
    return np.ascontiguousarray(array).astype(wanted).tobytes()


def _array(request: InputRequest) -> Any:
    assert request.npy is not None, "an example has content"
    fix = "Give a file written by numpy.save, with numbers and not objects."
    try:
        array = np.load(io.BytesIO(request.npy), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError, TypeError) as error:
        raise BadInput(FIELD, f"the file for {request.argument} is not an array ({str(error)[:200]}).", fix) from error
    if not isinstance(array, np.ndarray):
        raise BadInput(FIELD, f"the file for {request.argument} contains several arrays.", fix)
    return array
