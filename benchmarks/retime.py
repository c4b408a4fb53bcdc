"""Builds several schedules of one workload and times them interleaved, in this one process.

Reads a ``RetimeOrder`` from standard input and prints a ``RetimeAnswer``, both as JSON.
"""

import json
import sys
from typing import Any

import numpy
import tvm
from tvm.ir import IRModule
from tvm.s_tir.schedule import Schedule, Trace
from tvm.target import Target

from benchmarks.host_target import host_target
from benchmarks.retimed import RetimeAnswer, Retimed, RetimeOrder
from benchmarks.workload_module import workload_module
from tunefarm_workers.thread_placement import place_threads

LARGEST_RELATIVE_ERROR = 1e-3
"""Of the largest value of an output: another order of summation in float32 stays far below."""


def build_schedule(module: IRModule, trace: str | None, target: Target) -> Any:
    """What ``tvm.build`` ships for a trace, or for the function as it is."""
    if trace is None:
        return tvm.build(module, target=target)
    schedule = Schedule(module)
    Trace.apply_json_to_schedule(json.loads(trace), schedule)
    return tvm.build(schedule.mod, target=target)


def make_arguments(module: IRModule) -> list[Any]:
    """One tensor per parameter, filled with normal numbers, the same in every process."""
    generator = numpy.random.default_rng(0)
    arrays = [
        generator.standard_normal([int(extent) for extent in parameter.shape]).astype(str(parameter.dtype))
        for parameter in module["main"].params
    ]
    return [tvm.runtime.tensor(array) for array in arrays]


def outputs_of(library: Any, module: IRModule) -> list[Any]:
    """Every argument after one call. They are made anew, so that an output that is not written does not look right."""
    arguments = make_arguments(module)
    library["main"](*arguments)
    return [argument.numpy() for argument in arguments]


def agree(outputs: list[Any], reference: list[Any]) -> bool:
    """Whether two sets of arguments are the same up to rounding."""
    return all(
        bool(numpy.max(numpy.abs(output - expected)) <= LARGEST_RELATIVE_ERROR * numpy.max(numpy.abs(expected)))
        for output, expected in zip(outputs, reference, strict=True)
    )


def time_in_turn(libraries: list[Any], arguments: list[Any], rounds: int, sample_s: float) -> list[list[float]]:
    """``rounds`` samples, in seconds per call, of each library; each round begins with another one."""
    device = tvm.cpu(0)
    calls = []
    for library in libraries:
        once_s = library.time_evaluator("main", device, number=3)(*arguments).mean
        calls.append(max(1, round(sample_s / once_s)))
    samples: list[list[float]] = [[] for _ in libraries]
    for turn in range(rounds):
        for step in range(len(libraries)):
            index = (turn + step) % len(libraries)
            evaluator = libraries[index].time_evaluator("main", device, number=calls[index])
            samples[index].append(float(evaluator(*arguments).mean))
    return samples


def retime(order: RetimeOrder) -> RetimeAnswer:
    """Build, check against the unscheduled function, and time."""
    target = Target(host_target(order.cores))
    module = workload_module(order.workload)
    place_threads(order.cores)
    libraries = [build_schedule(module, schedule.trace, target) for schedule in order.schedules]
    reference = outputs_of(build_schedule(module, None, target), module)
    agreements = [agree(outputs_of(library, module), reference) for library in libraries]
    samples = time_in_turn(libraries, make_arguments(module), order.rounds, order.sample_s)
    return RetimeAnswer(
        schedules=tuple(
            Retimed(
                name=schedule.name,
                latency_s=float(numpy.median(times)),
                deviation_s=float(numpy.median(numpy.abs(numpy.array(times) - numpy.median(times)))),
                samples_s=tuple(times),
                agrees=agreement,
            )
            for schedule, times, agreement in zip(order.schedules, samples, agreements, strict=True)
        )
    )


if __name__ == "__main__":
    print(retime(RetimeOrder.model_validate_json(sys.stdin.read())).model_dump_json())
