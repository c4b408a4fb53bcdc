"""The child that runs a compiled model, compares it with the same model with other kernels, and times it."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import tvm

from tunefarm.frontend.random_inputs import INPUT_SETS, Array, random_inputs
from tunefarm.frontend.weights_file import read_weights
from tunefarm.model.loaded_model import CompiledModel, open_model
from tunefarm.model.messages import CompareOrder, ModelCompared, exact_name, input_name, output_name
from tunefarm.model.model_folder import ModelFiles, read_model_folder
from tunefarm.model.relative_error import error_beside_exact, relative_error
from tunefarm.model.timing.model_runs import callable_functions, run_of
from tunefarm.model.timing.model_times import cold_latencies_s, warm_latencies_s
from tunefarm.model.timing.timing_child import await_turn
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: answer one ``CompareOrder``. ``descriptors`` are the libraries in sealed memory."""
    order = CompareOrder.model_validate_json(payload)
    answer(channel, lambda: compared(order, partial(await_turn, channel), *descriptors))


def compared(
    order: CompareOrder, on_ready: Callable[[], None], library: int, reference: int | None = None
) -> ModelCompared:
    """Run a model on random inputs, and compare its outputs with the reference. Calls ``on_ready`` before it is timed.

    Raises:
        BadInput: it cannot be loaded or run.
    """
    functions = callable_functions(order.functions, order.functions_file)
    files = read_model_folder(order.folder, functions)
    by_function = False
    try:
        model = open_model(files, library)
        if order.against is None or reference is None:
            error = None
        elif order.against == "library":
            other = _other_model(files, order, functions, reference)
            error = _error_against_model(model, other, order.is_quantized)
            by_function = error > 1 and order.is_quantized and order.reference_folder is None
            if by_function:
                error = error_of_functions(open_model(files, library), other)
        else:
            error = _error_against_outputs(model, read_weights(reference), order)
    finally:
        os.close(files.weights)
    if not order.timed:
        return ModelCompared(worst_error=error, by_function=by_function, latency_s=None, cold_latency_s=None)
    run = run_of(model)
    run()
    on_ready()
    warm_s = warm_latencies_s([run])[0] if "warm" in order.timed else None
    cold_s = cold_latencies_s([run])[0] if "cold" in order.timed else None
    return ModelCompared(worst_error=error, by_function=by_function, latency_s=warm_s, cold_latency_s=cold_s)


def _other_model(files: ModelFiles, order: CompareOrder, functions: Collection[str], library: int) -> CompiledModel:
    if order.reference_folder is None:
        return open_model(files, library)
    others = read_model_folder(order.reference_folder, functions)
    try:
        return open_model(others, library)
    finally:
        os.close(others.weights)


def _error_against_model(model: CompiledModel, other: CompiledModel, is_quantized: bool) -> float:
    errors = [0.0]
    for entry in model.manifest.entries:
        for number in range(INPUT_SETS):
            inputs = random_inputs(entry, number)
            found, expected = model(*inputs, entry=entry.name), other(*inputs, entry=entry.name)
            errors += _errors(found, list(_leaves(expected)), is_quantized)
    return max(errors)


def error_of_functions(model: CompiledModel, other: CompiledModel) -> float:
    """The largest error of a function of ``model``, compared with that of ``other`` on the same arguments.

    Where numbers are rounded to bytes again and again, results of whole models may differ by more than a tolerance can
    tell: a step that comes out differently changes all that follows. Results of single functions do not.
    """
    errors, given = [0.0], list[Any]()

    def compare(_function: Any, symbol: str, is_before: bool, _result: Any, *arguments: Any) -> int:
        kernel = other.kernel(symbol)
        if kernel is None:
            return 0
        if is_before:
            given[:] = [each.copyto(tvm.cpu()) if isinstance(each, tvm.runtime.Tensor) else each for each in arguments]
            return 0
        kernel(*given)
        for found, expected in zip(arguments, given, strict=True):
            if isinstance(found, tvm.runtime.Tensor):
                errors.append(relative_error(found.numpy(), expected.numpy(), is_quantized=True))
        return 0

    model.instrument(compare)
    for entry in model.manifest.entries:
        for number in range(INPUT_SETS):
            model(*random_inputs(entry, number), entry=entry.name)
    return max(errors)


def _error_against_outputs(model: CompiledModel, arrays: Mapping[str, Array], order: CompareOrder) -> float:
    errors = [0.0]
    for number, name in enumerate(order.entries):
        entry = model.entry(name)
        inputs = [arrays[input_name(number, at)] for at in range(len(entry.inputs))]
        expected = [arrays[output_name(number, at)] for at in range(len(entry.outputs))]
        found = model(*inputs, entry=entry.name)
        if exact_name(number, 0) in arrays and not order.is_quantized:
            exact = [arrays[exact_name(number, at)] for at in range(len(entry.outputs))]
            errors += map(error_beside_exact, _leaves(found), expected, exact)
        else:
            errors += _errors(found, expected, order.is_quantized)
    return max(errors)


def _errors(found: Any, expected: Sequence[Array], is_quantized: bool) -> list[float]:
    return [
        relative_error(one, other, is_quantized=is_quantized)
        for one, other in zip(_leaves(found), expected, strict=True)
    ]


def _leaves(result: Any) -> Iterator[Array]:
    if isinstance(result, tuple):
        for each in result:
            yield from _leaves(each)
    else:
        yield result
