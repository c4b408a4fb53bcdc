"""Three kernels whose times distinguish devices, in a child that lives as long as its farm."""

import json
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import te

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_workers.builder.scheduled_module import build_in_place, empty_arguments
from tunefarm_workers.conversation.messages import DeviceChild, KernelRequest
from tunefarm_workers.timing.call_timer import EVALUATOR, CallTimer

_COMPUTE_EXTENT = 48
_BANDWIDTH_ELEMENTS = 4 * 1024 * 1024
_SAMPLES = {"calibrate": (24, 5), "check": (8, 2)}
"""Samples of fast and of slow kernels; the fastest counts."""
_FAST_CALLS = 4


def watch(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: report the code generator, then answer each request with the kernels' present times.

    ``payload`` is the number of threads as JSON.
    """
    generator = f"tvm-{tvm.__version__}+llvm-{tvm.target.codegen.llvm_version_major()}"
    channel.send(DeviceChild(code_generator=generator).model_dump_json().encode())
    timers: list[CallTimer] = []
    while True:
        request = KernelRequest.model_validate_json(channel.receive())
        timers = timers or _timers(int(json.loads(payload)))
        fast, slow = _SAMPLES[request.depth]
        times = ReferenceKernelTimes(
            compute_s=_fastest_s(timers[0], fast, _FAST_CALLS),
            bandwidth_s=_fastest_s(timers[1], slow, 1),
            launch_s=_fastest_s(timers[2], fast, _FAST_CALLS),
        )
        channel.send(times.model_dump_json().encode())


def _fastest_s(timer: CallTimer, samples: int, calls: int) -> float:
    return min(timer.seconds_per_call(calls) for _ in range(samples))


def reference_functions(threads: int) -> tuple[Any, Any, Any]:
    """Return the kernels for a processor: computing, copying, and starting ``threads`` threads."""
    return _compute(), _bandwidth(), _launch(threads)


def _timers(threads: int) -> list[CallTimer]:
    target = tvm.target.Target({"kind": "llvm", "num-cores": threads})
    return [_timer(function, target) for function in reference_functions(threads)]


def _timer(function: Any, target: Any) -> CallTimer:
    module = build_in_place(tvm.IRModule({"main": function}), target)
    timer = CallTimer(module, "main", empty_arguments(function), tvm_ffi.get_global_func(EVALUATOR))
    timer.call()
    return timer


def _compute() -> Any:
    """Multiply-adds on data in the innermost cache."""
    extent = _COMPUTE_EXTENT
    left = te.placeholder((extent, extent), name="A")
    right = te.placeholder((extent, extent), name="B")
    axis = te.reduce_axis((0, extent), name="k")
    out = te.compute((extent, extent), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C")
    return te.create_prim_func([left, right, out])


def _bandwidth() -> Any:
    """A copy that exceeds the caches."""
    source = te.placeholder((_BANDWIDTH_ELEMENTS,), name="A")
    return te.create_prim_func([source, te.compute(source.shape, _plus_one(source), name="B")])


def _launch(threads: int) -> Any:
    """Minimal work on every thread: the cost of starting and joining them."""
    source = te.placeholder((threads,), name="A")
    function = te.create_prim_func([source, te.compute(source.shape, _plus_one(source), name="B")])
    schedule = tvm.s_tir.Schedule(function)
    schedule.parallel(schedule.get_loops(schedule.get_sblock("B"))[0])
    return schedule.mod["main"]


def _plus_one(source: Any) -> Callable[[Any], Any]:
    return lambda index: source[index] + 1.0
