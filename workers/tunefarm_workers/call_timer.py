"""How long calls of one compiled function take. Needs TVM's runtime only, so fresh processes use it as well."""

import struct
import time
from collections.abc import Sequence
from typing import Any

import tvm_ffi

_CPU = 1
_SLOW_CALL_S = 0.001
"""From here on Python's own clock is exact enough, and saves the warm call that TVM's evaluator always makes."""
_FLUSHED_BYTES = 64 * 1024 * 1024


class CallTimer:
    """Times calls of ``entry`` with fixed arguments, caches hot, or cold by flushing them before each call."""

    def __init__(self, module: Any, entry: str, arguments: Sequence[Any], *, cold_cache: bool = False) -> None:
        self._module = module
        self._entry = entry
        self._function = module[entry]
        self._arguments = tuple(arguments)
        self._cold_cache = cold_cache
        self._evaluator = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")
        self._latest_s = 0.0

    def call(self) -> float:
        """Call once; the seconds it took, the cost of calling from Python included."""
        start_s = time.perf_counter()
        self._function(*self._arguments)
        self._latest_s = time.perf_counter() - start_s
        return self._latest_s

    def seconds_per_call(self, calls: int) -> float:
        """Mean seconds of ``calls`` calls."""
        if self._latest_s > _SLOW_CALL_S and not self._cold_cache:
            self._latest_s = self._loop(calls)
        else:
            self._latest_s = self._evaluate(calls)
        return self._latest_s

    def _loop(self, calls: int) -> float:
        start_s = time.perf_counter()
        for _ in range(calls):
            self._function(*self._arguments)
        return (time.perf_counter() - start_s) / calls

    def _evaluate(self, calls: int) -> float:
        number, repeat, flushed_bytes = (1, calls, _FLUSHED_BYTES) if self._cold_cache else (calls, 1, 0)
        evaluate = self._evaluator(self._module, self._entry, _CPU, 0, number, repeat, 0, 0, 0, 1, flushed_bytes, "")
        seconds: tuple[float, ...] = struct.unpack(f"@{repeat}d", evaluate(*self._arguments))
        return max(sum(seconds) / repeat, 1e-9)
