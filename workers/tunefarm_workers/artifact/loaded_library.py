"""A compiled library with its tensors, in a process that has TVM's runtime only."""

import os
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from math import prod

from tunefarm_workers.artifact.library_order import LibraryOrder, RivalOrder, TensorOrder
from tunefarm_workers.artifact.runtime_library import Runtime, RuntimeObject
from tunefarm_workers.threads.core_to_core_latency import CoreToCoreLatency
from tunefarm_workers.threads.smt_detection import sleep_burst
from tunefarm_workers.threads.thread_cores import place_on_cores
from tunefarm_workers.timing.call_timer import EVALUATOR, CacheFlush, CallTimer
from tunefarm_workers.timing.calm_samples import calm_samples, middle

ROUNDS = 6
"""A burst of sleeps ends about half of the slow states of a processor: with three rounds, all rounds of a softmax were
slow in three of twenty processes."""
_TOLERANCE = 1.05
_SHORT_S = 0.02
"""Longer calls are not repeated."""
_MAX_ROUNDS_S = 1.0
"""Never reached by the rounds of short kernels; slow kernels need fewer rounds."""
_PAUSE_S = 0.008
_BURST_S = 0.03
_MIN_CALL_S = 1e-6


class WrongLibrary(Exception):
    """Raised for a library whose digest is not the expected one."""


def require_digest(contents: bytes, order: LibraryOrder | RivalOrder) -> None:
    """Raise ``WrongLibrary`` unless ``contents`` have the digest that ``order`` names."""
    if sha256(contents).hexdigest() != order.digest:
        raise WrongLibrary(f"{os.path.basename(order.library)} is not the library its manifest describes")  # noqa: PTH119


class LoadedLibrary:
    """Call it once with ``call`` before ``samples_s``."""

    def __init__(
        self,
        runtime: Runtime,
        order: LibraryOrder,
        inputs: memoryview,
        on_loaded: Callable[[], None] = lambda: None,
    ) -> None:
        """Load the library of ``order``, which must not change meanwhile, and fill its tensors from ``inputs``.

        ``on_loaded`` is called when threads and library are in place, before any of its functions is called.

        Raises:
            WrongLibrary: its digest differs.
            RuntimeFailed: it does not load.
        """
        _require_unchanged(order)
        os.environ["TVM_NUM_THREADS"] = str(order.num_cores)
        place_on_cores(order.num_cores, runtime.function("runtime.config_threadpool"))
        self._runtime = runtime
        self._order = order
        self._module = runtime.load(order.library)
        rival = self._rival_module(order.rival)
        runtime.function("runtime.NumThreads")()  # creates the threads, which a sealed process cannot
        self._flush = CacheFlush(runtime.register) if order.cold_cache else None
        on_loaded()
        self._distance = CoreToCoreLatency(runtime.library) if order.num_cores > 1 else None
        self._inputs = inputs
        self._spare: list[RuntimeObject] = []
        self._tensors = [self._filled(tensor, inputs) for tensor in order.tensors]
        self._bind()
        self._rival = None if order.rival is None else self._timer_of(rival, order.rival.entry, self._tensors)
        if self._rival is not None:
            self._rival.call()

    def call(self) -> None:
        """Call the library once."""
        self._timer.call()

    def outputs(self) -> list[bytes]:
        """Return the contents of each output."""
        pairs = zip(self._order.tensors, self._tensors, strict=True)
        return [held.memory().tobytes() for tensor, held in pairs if tensor.is_output]

    def exercise(self) -> None:
        """Use the library as a long-running program does, then call it once on the first inputs.

        The outputs then differ if the kernel keeps state between calls or depends on the memory it was checked on. The
        use is random, so that the library cannot tell a check from use.
        """
        pause, shift, calls, padding = os.urandom(4)
        took_s = self._timer.call()
        if took_s < _SHORT_S:
            time.sleep(_PAUSE_S * pause / 255)
            self._spare.append(self._runtime.allocate((64 * (padding + 1),), "uint8"))
            self._tensors = [self._filled(tensor, self._inputs, shift + 1) for tensor in self._order.tensors]
            self._bind()
            self._timer.call()
            max_calls = int(_BURST_S / max(took_s, _MIN_CALL_S))
            self._timer.seconds_per_call(1 + max_calls * (calls + 1) // 256)
        self._tensors = [self._filled(tensor, self._inputs) for tensor in self._order.tensors]
        self._bind()
        self._timer.call()

    def shares_cache(self) -> bool:
        """Whether its first two threads communicate as fast as threads with a common cache do."""
        return self._distance is None or self._distance.is_near()

    def samples_s(self) -> Sequence[float]:
        """Return the seconds per call of the fastest of several rounds of the full protocol.

        During one round two threads may share a physical core, or the processor may be in a slow state that lasts until
        it sleeps; this process cannot detect either. One round suffices if it is as fast as the likely latency.
        """
        fast_s = _TOLERANCE * (self._order.likely_s or 0.0)
        began_s = time.monotonic()
        rounds = [self._round()]
        while len(rounds) < ROUNDS and middle(rounds[-1]) > fast_s and time.monotonic() - began_s < _MAX_ROUNDS_S:
            sleep_burst()
            rounds.append(self._round())
        return min(rounds, key=middle)

    def samples_of_both_s(self) -> tuple[Sequence[float], Sequence[float]]:
        """The same for this library and its rival, in alternating rounds; the rival begins every other one.

        Rounds continue until each library came close to its fastest round twice, so that neither is judged by a state
        of the processor that the other met only once.
        """
        assert self._rival is not None, "there is a rival"
        began_s = time.monotonic()
        timers, rounds = (self._timer, self._rival), ([self._round()], [_round_of(self._rival)])
        while len(rounds[0]) < ROUNDS and not (len(rounds[0]) > 1 and all(map(_is_settled, rounds))):
            if len(rounds[0]) > 1 and time.monotonic() - began_s > 2 * _MAX_ROUNDS_S:
                break
            sleep_burst()
            for side in (1, 0) if len(rounds[0]) % 2 else (0, 1):
                rounds[side].append(_round_of(timers[side]))
        return min(rounds[0], key=middle), min(rounds[1], key=middle)

    def _round(self) -> Sequence[float]:
        return _round_of(self._timer)

    def _rival_module(self, rival: RivalOrder | None) -> RuntimeObject | None:
        if rival is None:
            return None
        _require_unchanged(rival)
        return self._runtime.load(rival.library)

    def _timer_of(self, module: RuntimeObject | None, entry: str, tensors: list[RuntimeObject]) -> CallTimer:
        return CallTimer(module, entry, tensors, self._runtime.function(EVALUATOR), self._flush)

    def _bind(self) -> None:
        """Bind the timer to the present tensors."""
        self._timer = self._timer_of(self._module, self._order.entry, self._packed())

    def _filled(self, tensor: TensorOrder, inputs: memoryview, shift: int = 0) -> RuntimeObject:
        """Allocate a tensor with its contents rotated by ``shift`` elements.

        Without contents it holds bytes that no kernel computes, so that an unwritten output is noticed.
        """
        held = self._runtime.allocate(tensor.shape, tensor.dtype)
        memory = held.memory()
        if tensor.input_offset_bytes is None:
            memory[:] = b"\xa5" * len(memory)
            return held
        contents = inputs[tensor.input_offset_bytes : tensor.input_offset_bytes + len(memory)]
        start = shift % prod(tensor.shape) * (len(memory) // prod(tensor.shape)) if shift and len(memory) else 0
        memory[: len(memory) - start] = contents[start:]
        memory[len(memory) - start :] = contents[:start]
        return held

    def _packed(self) -> list[RuntimeObject]:
        """Return the tensors with the packed ones in place of the plain ones."""
        order = self._order
        if order.pack_entry is None:
            return self._tensors
        packed = {tensor.name: self._runtime.allocate(tensor.shape, tensor.dtype) for tensor in order.packed}
        pairs = list(zip(order.tensors, self._tensors, strict=True))
        self._module[order.pack_entry](*(held for tensor, held in pairs if tensor.name in packed), *packed.values())
        return [packed.get(tensor.name, held) for tensor, held in pairs]


def _require_unchanged(order: LibraryOrder | RivalOrder) -> None:
    """Raise ``WrongLibrary`` unless the file has the digest that ``order`` names."""
    with open(order.library, "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than this to run
        require_digest(file.read(), order)


def _round_of(timer: CallTimer) -> Sequence[float]:
    return calm_samples(timer.seconds_per_call, timer.seconds_per_call(1))


def _is_settled(rounds: Sequence[Sequence[float]]) -> bool:
    """Whether the two fastest rounds agree."""
    medians_s = sorted(map(middle, rounds))
    return medians_s[1] <= _TOLERANCE * medians_s[0]
