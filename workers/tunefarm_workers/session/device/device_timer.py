"""How long calls take on a device, by TVM's timer for it: events on a graphics processor, the clock of a board."""

import struct
import time
from collections.abc import Sequence
from typing import Any

import tvm_ffi

from tunefarm_workers.session.device.bench import Bench


class DeviceTimer:
    """Times calls of ``entry`` with fixed arguments, caches hot, or cold by writing other memory before each call."""

    def __init__(
        self, bench: Bench, module: Any, entry: str, arguments: Sequence[Any], *, flush_bytes: int = 0
    ) -> None:
        """``flush_bytes`` of memory are written between two calls; none leaves caches hot."""
        self._bench = bench
        self._module = module
        self._entry = entry
        self._function = module[entry]
        self._arguments = tuple(arguments)
        self._flush_bytes = flush_bytes
        self._evaluator = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")

    def call(self) -> float:
        """Call once and wait for the end; the seconds it took, the way to the device included."""
        start_s = time.perf_counter()
        self._function(*self._arguments)
        self._bench.synchronize()
        return time.perf_counter() - start_s

    def seconds_per_call(self, calls: int) -> float:
        """Mean seconds of ``calls`` calls, after one that does not count."""
        number, repeat = (1, calls) if self._flush_bytes else (calls, 1)
        bench = self._bench
        evaluate = self._evaluator(
            *(self._module, self._entry, bench.device_type, bench.index),
            *(number, repeat, 0, 0, 0, 1, self._flush_bytes, ""),
        )
        seconds: tuple[float, ...] = struct.unpack(f"@{repeat}d", evaluate(*self._arguments))
        return max(sum(seconds) / repeat, 1e-9)
