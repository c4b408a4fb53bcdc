"""Times calls with TVM's timer for the device: events on a graphics processor, the clock on a board."""

import struct
import time
from collections.abc import Sequence
from typing import Any

import tvm_ffi

from tunefarm_workers.session.device.bench import Bench


class DeviceTimer:
    """Times calls of ``entry`` with fixed arguments and hot caches, or cold ones, flushed before each call."""

    def __init__(
        self, bench: Bench, module: Any, entry: str, arguments: Sequence[Any], *, flush_bytes: int = 0
    ) -> None:
        """``flush_bytes`` of memory are written between two calls; 0 leaves caches hot."""
        self._bench = bench
        self._module = module
        self._entry = entry
        self._function = module[entry]
        self._arguments = tuple(arguments)
        self._flush_bytes = flush_bytes
        self._evaluator = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")

    def call(self) -> float:
        """Call once and wait for the end. Returns the seconds, including the transfer of the call to the device."""
        start_s = time.perf_counter()
        self._function(*self._arguments)
        self._bench.synchronize()
        return time.perf_counter() - start_s

    def seconds_per_call(self, calls: int) -> float:
        """Mean seconds of ``calls`` calls, after a warm-up call."""
        number, repeat = (1, calls) if self._flush_bytes else (calls, 1)
        bench = self._bench
        evaluate = self._evaluator(
            *(self._module, self._entry, bench.device_type, bench.index),
            *(number, repeat, 0, 0, 0, 1, self._flush_bytes, ""),
        )
        seconds: tuple[float, ...] = struct.unpack(f"@{repeat}d", evaluate(*self._arguments))
        return max(sum(seconds) / repeat, 1e-9)
