"""How long calls of one compiled function take. Imports nothing of TVM's, so fresh processes use it as well."""

import struct
import time
from collections.abc import Sequence
from typing import Any, Final

EVALUATOR: Final = "runtime.RPCTimeEvaluator"
"""The global function that makes TVM's own clock around many calls."""

_CPU = 1
_SLOW_CALL_S = 0.001
"""From here on Python's own clock is exact enough, and saves the warm call that TVM's evaluator always makes."""
_FLUSHED_BYTES = 64 * 1024 * 1024
_LINE_BYTES = 64
_MOST_COLD_CALLS = 4
"""Flushing takes milliseconds, and each cold call is on the clock by itself, so a mean over many calls says no more
than the median over samples does."""


class CallTimer:
    """Times calls of ``entry`` with fixed arguments, caches hot, or cold by flushing them before each call."""

    def __init__(
        self, module: Any, entry: str, arguments: Sequence[Any], evaluator: Any, *, cold_cache: bool = False
    ) -> None:
        """``evaluator`` is what the runtime has under ``EVALUATOR``."""
        self._module = module
        self._entry = entry
        self._function = module[entry]
        self._arguments = tuple(arguments)
        self._cold_cache = cold_cache
        self._evaluator = evaluator
        self._elsewhere = bytearray(_FLUSHED_BYTES if cold_cache else 0)
        self._written = bytearray(len(self._elsewhere) // _LINE_BYTES)
        self._latest_s = 0.0

    def call(self) -> float:
        """Call once; the seconds it took, the cost of calling from Python included."""
        start_s = time.perf_counter()
        self._function(*self._arguments)
        self._latest_s = time.perf_counter() - start_s
        return self._latest_s

    def seconds_per_call(self, calls: int) -> float:
        """Mean seconds of ``calls`` calls, of fewer where caches are flushed before each."""
        if self._cold_cache:
            self._latest_s = self._cold(calls)
        elif self._latest_s > _SLOW_CALL_S:
            self._latest_s = self._loop(calls)
        else:
            self._latest_s = self._evaluate(calls)
        return self._latest_s

    def _loop(self, calls: int) -> float:
        start_s = time.perf_counter()
        for _ in range(calls):
            self._function(*self._arguments)
        return (time.perf_counter() - start_s) / calls

    def _cold(self, calls: int) -> float:
        """TVM's evaluator flushes as well, but takes its memory anew each time: fifty times what flushing costs."""
        spent_s = 0.0
        few = min(calls, _MOST_COLD_CALLS)
        for _ in range(few):
            self._elsewhere[::_LINE_BYTES] = self._written
            spent_s += self.call()
        return max(spent_s / few, 1e-9)

    def _evaluate(self, calls: int) -> float:
        evaluate = self._evaluator(self._module, self._entry, _CPU, 0, calls, 1, 0, 0, 0, 1, 0, "")
        (seconds,) = struct.unpack("@d", evaluate(*self._arguments))
        return max(float(seconds), 1e-9)
