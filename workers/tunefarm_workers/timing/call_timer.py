"""How long calls of one compiled function take. Imports nothing of TVM's, so fresh processes use it as well."""

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

EVALUATOR: Final = "runtime.RPCTimeEvaluator"
"""The global function that makes TVM's own clock around many calls."""

_CPU = 1
_SLOW_CALL_S = 0.001
"""From here on Python's own clock is exact enough, and saves the warm call that TVM's evaluator always makes."""
_FLUSHED_BYTES = 64 * 1024 * 1024
_LINE_BYTES = 64
_SLOW_COLD_CALL_S = 0.01
"""The same for cold calls: a caller's own instructions are in no cache either, which costs tens of microseconds."""
_MAX_COLD_CALLS = 4
"""Flushing takes milliseconds, and each cold call is on the clock by itself, so a mean over many calls says no more
than the median over samples does."""


class CacheFlush:
    """Writes so much other memory that what a kernel uses is in no cache any more.

    TVM's evaluator calls it between its warm call and the clock. Its own flush takes its memory anew each time, which
    costs fifty times as much.
    """

    NAME: Final = "tunefarm.flush_caches"

    def __init__(self, register: Callable[[str, Callable[..., None]], object]) -> None:
        """``register`` lets the runtime call a function under a name. To be made before the process is sealed."""
        self._elsewhere = bytearray(_FLUSHED_BYTES)
        self._written = bytearray(_FLUSHED_BYTES // _LINE_BYTES)
        register(self.NAME, self)

    def __call__(self, *_: object) -> None:
        """Flush."""
        self._elsewhere[::_LINE_BYTES] = self._written


class CallTimer:
    """Times calls of ``entry`` with fixed arguments, caches hot, or cold by flushing them before each call.

    Whoever takes time does it here: candidates, comparisons, fresh processes and artifacts on trial, whatever they
    speak to TVM's runtime through. Of short calls only the runtime's own clock is read, for a call from Python takes as
    long as many kernels, and another time from each of them.
    """

    def __init__(
        self, module: Any, entry: str, arguments: Sequence[Any], evaluator: Any, flush: CacheFlush | None = None
    ) -> None:
        """``evaluator`` is what the runtime has under ``EVALUATOR``. With ``flush`` caches are cold."""
        self._module = module
        self._entry = entry
        self._function = module[entry]
        self._arguments = tuple(arguments)
        self._evaluator = evaluator
        self._flush = flush
        self._latest_s = 0.0

    def call(self) -> float:
        """Call once; the seconds it took, the cost of calling from Python included."""
        start_s = time.perf_counter()
        self._function(*self._arguments)
        self._latest_s = time.perf_counter() - start_s
        return self._latest_s

    def seconds_per_call(self, calls: int) -> float:
        """Mean seconds of ``calls`` calls, of fewer where caches are flushed before each."""
        if self._flush is not None:
            self._latest_s = self._cold(min(calls, _MAX_COLD_CALLS), self._flush)
        elif self._latest_s > _SLOW_CALL_S:
            self._latest_s = self._loop(calls)
        else:
            (self._latest_s,) = self._evaluate(calls)
        return self._latest_s

    def _loop(self, calls: int) -> float:
        start_s = time.perf_counter()
        for _ in range(calls):
            self._function(*self._arguments)
        return (time.perf_counter() - start_s) / calls

    def _cold(self, calls: int, flush: CacheFlush) -> float:
        if self._latest_s <= _SLOW_COLD_CALL_S:
            return sum(self._evaluate(1, calls, flush.NAME)) / calls
        spent_s = 0.0
        for _ in range(calls):
            flush()
            spent_s += self.call()
        return spent_s / calls

    def _evaluate(self, calls: int, repeats: int = 1, before: str = "") -> list[float]:
        """Mean seconds of ``calls`` calls, ``repeats`` times, each after the runtime's function ``before``."""
        evaluate = self._evaluator(self._module, self._entry, _CPU, 0, calls, repeats, 0, 0, 0, 1, 0, before)
        return [max(seconds, 1e-9) for seconds in struct.unpack(f"@{repeats}d", evaluate(*self._arguments))]
