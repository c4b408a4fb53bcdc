"""What every timer of a processor keeps, for a kernel that counts its own steps."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T

from tunefarm.model.timing.model_runs import WarmRuns
from tunefarm.model.timing.model_times import _ColdRuns
from tunefarm_workers.builder.scheduled_module import build_in_place
from tunefarm_workers.child.kernel import cache_flush
from tunefarm_workers.session.device.device_timer import DeviceTimer
from tunefarm_workers.session.device.local_bench import LocalBench
from tunefarm_workers.timing.call_timer import EVALUATOR, CacheFlush, CallTimer
from tunefarm_workers.timing.interleaved_timing import Entrant, Timer

STEPS = 100_000
LEAST_S = STEPS * 1e-10
"""Each step needs the result of the one before, and no processor adds in a tenth of a nanosecond."""


@T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
def counting(counter: T.Buffer((1,), "float64")) -> None:  # type: ignore[valid-type]
    for _ in T.serial(STEPS):
        counter[0] = counter[0] + T.float64(1)


class Counting:
    """A kernel whose calls can be counted."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.counter = tvm.runtime.tensor(np.zeros(1))

    @property
    def calls(self) -> float:
        return float(self.counter.numpy()[0]) / STEPS

    def run(self) -> None:
        self.module["main"](self.counter)


@pytest.fixture(scope="module")
def module() -> Any:
    return build_in_place(tvm.IRModule({"main": counting}), tvm.target.Target("llvm"))


@pytest.fixture
def kernel(module: Any) -> Counting:
    return Counting(module)


def call_timer(kernel: Counting, *, is_cold: bool) -> Timer:
    evaluator = tvm_ffi.get_global_func(EVALUATOR)
    return CallTimer(kernel.module, "main", [kernel.counter], evaluator, cache_flush(cold_cache=is_cold))


def device_timer(kernel: Counting, *, flush_bytes: int) -> Timer:
    return DeviceTimer(LocalBench("cpu", 0), kernel.module, "main", [kernel.counter], flush_bytes=flush_bytes)


MAKERS: dict[str, Callable[[Counting], Timer]] = {
    "call": partial(call_timer, is_cold=False),
    "cold call": partial(call_timer, is_cold=True),
    "device": partial(device_timer, flush_bytes=0),
    "cold device": partial(device_timer, flush_bytes=1 << 20),
    "model": lambda kernel: WarmRuns(kernel.run),
    "cold model": lambda kernel: _ColdRuns(kernel.run, CacheFlush(lambda _name, _function: None)),
}


@pytest.fixture(params=MAKERS)
def timer(request: pytest.FixtureRequest, kernel: Counting) -> Timer:
    return MAKERS[request.param](kernel)


@pytest.mark.parametrize("calls", [1, 3])
def test_timer_returns_mean_of_calls(timer: Timer, kernel: Counting, calls: int) -> None:
    for _ in range(3):
        before, began_s = kernel.calls, time.perf_counter()
        mean_s = timer.seconds_per_call(calls)
        spent_s = time.perf_counter() - began_s
        assert calls <= kernel.calls - before <= 2 * calls, "each timed call has at most one that warms up"
        assert LEAST_S <= mean_s <= spent_s / calls


def test_entrant_calls_its_kernel(timer: Timer, kernel: Counting) -> None:
    entrant = Entrant.of(kernel, timer)
    before = kernel.calls
    assert entrant.timer.seconds_per_call(entrant.calls) >= LEAST_S
    assert kernel.calls > before
