"""Times calls of one compiled function. Imports nothing of TVM, so that fresh processes can use it."""

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

EVALUATOR: Final = "runtime.RPCTimeEvaluator"
"""The global function that creates TVM's time evaluator."""

_CPU = 1
_SLOW_CALL_S = 0.001
"""For longer calls Python's clock is exact enough, and saves the warm-up call of TVM's evaluator."""
_FLUSHED_BYTES = 64 * 1024 * 1024
_LINE_BYTES = 64
_SLOW_COLD_CALL_S = 0.01
"""The same for cold calls, where the caller's own cache misses cost tens of microseconds."""
_MAX_COLD_CALLS = 4
"""Flushing takes milliseconds, and cold calls are timed one by one, so the median over samples suffices."""


class CacheFlush:
    """Evicts a kernel's data from all caches by writing other memory.

    TVM's evaluator calls it between the warm-up call and the timed one. TVM's own flush allocates its memory each time,
    which takes fifty times as long.
    """

    NAME: Final = "tunefarm.flush_caches"

    def __init__(self, register: Callable[[str, Callable[..., None]], object]) -> None:
        """``register`` registers a global function with the runtime. Create before the process is sealed."""
        self._elsewhere = bytearray(_FLUSHED_BYTES)
        self._written = bytearray(_FLUSHED_BYTES // _LINE_BYTES)
        register(self.NAME, self)

    def __call__(self, *_: object) -> None:
        """Flush."""
        self._elsewhere[::_LINE_BYTES] = self._written


class CallTimer:
    """Times calls of ``entry`` with fixed arguments, with hot caches, or with caches flushed before each call.

    The only clock for kernels: candidates, comparisons and fresh processes use it with their own interface to the
    runtime. Short calls are timed inside the runtime, because a call from Python takes as long as many kernels, and
    differs between interfaces.
    """

    def __init__(
        self, module: Any, entry: str, arguments: Sequence[Any], evaluator: Any, flush: CacheFlush | None = None
    ) -> None:
        """``evaluator`` is the global function ``EVALUATOR``. With ``flush`` caches are cold."""
        self._module = module
        self._entry = entry
        self._function = module[entry]
        self._arguments = tuple(arguments)
        self._evaluator = evaluator
        self._flush = flush
        self._last_s = 0.0

    def call(self) -> float:
        """Call once; return the seconds it took, including the overhead of Python."""
        start_s = time.perf_counter()
        self._function(*self._arguments)
        self._last_s = time.perf_counter() - start_s
        return self._last_s

    def seconds_per_call(self, calls: int) -> float:
        """Return the mean seconds of ``calls`` calls, or of fewer cold ones."""
        if self._flush is not None:
            self._last_s = self._cold(min(calls, _MAX_COLD_CALLS), self._flush)
        elif self._last_s > _SLOW_CALL_S:
            self._last_s = self._loop(calls)
        else:
            (self._last_s,) = self._evaluate(calls)
        return self._last_s

    def _loop(self, calls: int) -> float:
        start_s = time.perf_counter()
        for _ in range(calls):
            self._function(*self._arguments)
        return (time.perf_counter() - start_s) / calls

    def _cold(self, calls: int, flush: CacheFlush) -> float:
        if self._last_s <= _SLOW_COLD_CALL_S:
            return sum(self._evaluate(1, calls, flush.NAME)) / calls
        spent_s = 0.0
        for _ in range(calls):
            flush()
            spent_s += self.call()
        return spent_s / calls

    def _evaluate(self, calls: int, repeats: int = 1, before: str = "") -> list[float]:
        """Return the mean of ``calls`` calls, ``repeats`` times, each after the global function ``before``."""
        evaluate = self._evaluator(self._module, self._entry, _CPU, 0, calls, repeats, 0, 0, 0, 1, 0, before)
        return [max(seconds, 1e-9) for seconds in struct.unpack(f"@{repeats}d", evaluate(*self._arguments))]
