"""Builds several schedules of one workload and times them in turn, in this process.

Reads a ``RetimeOrder`` from standard input and prints a ``RetimeAnswer``, both as JSON.
"""

import json
import sys
from typing import Any

import numpy
import tvm
import tvm_ffi
from tvm.ir import IRModule
from tvm.s_tir.schedule import Schedule, Trace
from tvm.target import Target

from benchmarks.comparison.retimed import RetimeAnswer, RetimeOrder, of_samples
from benchmarks.host_target import host_target
from benchmarks.workload_module import workload_module
from tunefarm_workers.threads.smt_detection import TRIES, SmtDetection
from tunefarm_workers.threads.spread_kernels import smt_detection
from tunefarm_workers.threads.thread_placement import place_threads

PAGE_BYTES, ALIGNMENT_BYTES = 4096, 64
OFFSETS = 7
"""Offsets of tensors in their pages. Some kernels take a third longer where their tensors' addresses collide in the
caches, and within one process the addresses never change."""
MAX_RELATIVE_ERROR = 1e-3
"""Relative to the largest value of an output. Float32 sums in another order differ by much less."""


def build_schedule(module: IRModule, trace: str | None, target: Target) -> Any:
    """What ``tvm.build`` ships for a trace, or for the unscheduled function."""
    if trace is None:
        return tvm.build(module, target=target)
    schedule = Schedule(module)
    Trace.apply_json_to_schedule(json.loads(trace), schedule)
    return tvm.build(schedule.mod, target=target)


def make_arguments(module: IRModule, number: int = 0) -> list[Any]:
    """One tensor per parameter, with normally distributed numbers that are the same in every process.

    ``number`` selects their random offsets within a page.
    """
    generator, place = numpy.random.default_rng(0), numpy.random.default_rng((1, number))
    arrays = [
        generator.standard_normal([int(extent) for extent in parameter.shape]).astype(str(parameter.dtype))
        for parameter in module["main"].params
    ]
    return [_placed(array, ALIGNMENT_BYTES * int(place.integers(0, PAGE_BYTES // ALIGNMENT_BYTES))) for array in arrays]


def _placed(array: Any, offset_bytes: int) -> Any:
    """A copy of ``array`` at the given offset within a page."""
    memory = numpy.empty(array.nbytes + 2 * PAGE_BYTES, numpy.uint8)
    begin = -memory.ctypes.data % PAGE_BYTES + offset_bytes
    inside = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return tvm_ffi.from_dlpack(inside)


def outputs_of(library: Any, module: IRModule) -> list[Any]:
    """Every argument after one call. They are new tensors, so an output that is not written does not look right."""
    arguments = make_arguments(module)
    library["main"](*arguments)
    return [numpy.from_dlpack(argument) for argument in arguments]


def agree(outputs: list[Any], reference: list[Any]) -> bool:
    """Whether two sets of arguments are equal up to rounding."""
    return all(
        bool(numpy.max(numpy.abs(output - expected)) <= MAX_RELATIVE_ERROR * numpy.max(numpy.abs(expected)))
        for output, expected in zip(outputs, reference, strict=True)
    )


def time_in_turn(
    libraries: list[Any], placed: list[list[Any]], rounds: int, sample_s: float, sharing: SmtDetection | None
) -> list[list[float]]:
    """``rounds`` samples, in seconds per call, of each library; each round begins with a different one.

    Successive rounds use the sets of arguments in ``placed``. Timing begins once no two threads share a physical core.
    """
    device = tvm.cpu(0)
    calls = []
    for library in libraries:
        once_s = library.time_evaluator("main", device, number=3)(*placed[0]).mean
        calls.append(max(1, round(sample_s / once_s)))
    samples: list[list[float]] = [[] for _ in libraries]
    for turn in range(rounds):
        arguments = placed[turn % len(placed)]
        if sharing is not None:
            sharing.separate_threads(TRIES)
        for step in range(len(libraries)):
            index = (turn + step) % len(libraries)
            evaluator = libraries[index].time_evaluator("main", device, number=calls[index])
            samples[index].append(float(evaluator(*arguments).mean))
    return samples


def retime(order: RetimeOrder) -> RetimeAnswer:
    """Build, check against the unscheduled function, and time."""
    target = Target(host_target(order.cores))
    module = workload_module(order.workload)
    sharing = smt_detection(order.cores)
    place_threads(order.cores)
    libraries = [build_schedule(module, schedule.trace, target) for schedule in order.schedules]
    reference = outputs_of(build_schedule(module, None, target), module)
    agreements = [agree(outputs_of(library, module), reference) for library in libraries]
    placed = [make_arguments(module, number) for number in range(OFFSETS)]
    samples = time_in_turn(libraries, placed, order.rounds, order.sample_s, sharing)
    return RetimeAnswer(
        schedules=tuple(
            of_samples(schedule.name, times, agrees=agreement)
            for schedule, times, agreement in zip(order.schedules, samples, agreements, strict=True)
        )
    )


if __name__ == "__main__":
    print(retime(RetimeOrder.model_validate_json(sys.stdin.read())).model_dump_json())
