"""A compiled library with tensors to call it on, in a process that has TVM's runtime only."""

import os
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from math import prod

from tunefarm_workers.artifact.library_order import LibraryOrder, RivalOrder, TensorOrder
from tunefarm_workers.artifact.runtime_library import Held, Runtime
from tunefarm_workers.threads.core_to_core_latency import CoreToCoreLatency
from tunefarm_workers.threads.smt_detection import sleep_burst
from tunefarm_workers.threads.thread_cores import place_on_cores
from tunefarm_workers.timing.call_timer import EVALUATOR, CacheFlush, CallTimer
from tunefarm_workers.timing.calm_samples import calm_samples, middle

ROUNDS = 6
"""Each burst of sleeps ends about half of the slow states of a processor: three rounds of a softmax were all slow in
three of twenty processes."""
AS_LIKELY = 1.05
_BRIEF_S = 0.02
"""Longer calls are not made several times."""
_ENOUGH_S = 1.0
"""Rounds of brief kernels never take so long; of a slow one, what a process settles to shows in fewer."""
_PAUSE_S = 0.008
_BURST_S = 0.03
_MIN_CALL_S = 1e-6


class WrongLibrary(Exception):
    """Raised for a library that is not the one that was meant."""


def require_digest(contents: bytes, order: LibraryOrder | RivalOrder) -> None:
    """Raise ``WrongLibrary`` unless ``contents`` are those of the library that ``order`` names."""
    if sha256(contents).hexdigest() != order.digest:
        raise WrongLibrary(f"{os.path.basename(order.library)} is not the library its manifest describes")  # noqa: PTH119


class LoadedLibrary:
    """Called by ``call``, then timed by ``samples_s``."""

    def __init__(
        self,
        runtime: Runtime,
        order: LibraryOrder,
        inputs: memoryview,
        on_loaded: Callable[[], None] = lambda: None,
    ) -> None:
        """Load the library of ``order``, which nothing may change meanwhile, and fill its tensors from ``inputs``.

        ``on_loaded`` is called once its threads stand and it is loaded, before any of its functions is called.

        Raises:
            WrongLibrary: its digest is not the expected one.
            RuntimeFailed: it does not load.
        """
        _require_whole(order)
        os.environ["TVM_NUM_THREADS"] = str(order.num_cores)
        place_on_cores(order.num_cores, runtime.function("runtime.config_threadpool"))
        self._runtime = runtime
        self._order = order
        self._module = runtime.load(order.library)
        rival = self._rival_module(order.rival)
        runtime.function("runtime.NumThreads")()  # makes the threads where nothing has; sealed, it could not
        self._flush = CacheFlush(runtime.register) if order.cold_cache else None
        on_loaded()
        self._distance = CoreToCoreLatency(runtime.library) if order.num_cores > 1 else None
        self._inputs = inputs
        self._spare: list[Held] = []
        self._tensors = [self._filled(tensor, inputs) for tensor in order.tensors]
        self._bind()
        self._rival = None if order.rival is None else self._timer_of(rival, order.rival.entry, self._tensors)
        if self._rival is not None:
            self._rival.call()

    def call(self) -> None:
        """Call it once."""
        self._timer.call()

    def outputs(self) -> list[bytes]:
        """The contents of each output."""
        pairs = zip(self._order.tensors, self._tensors, strict=True)
        return [held.memory().tobytes() for tensor, held in pairs if tensor.is_output]

    def be_used_otherwise(self) -> None:
        """Use it as a program does that runs for long, and then call it once on the inputs that it was given first.

        A kernel that keeps something of earlier calls, or knows the memory it was checked on, differs afterwards. What
        comes in between is drawn anew each time, so that nothing in the library can tell a check from use.
        """
        pause, shift, calls, padding = os.urandom(4)
        took_s = self._timer.call()
        if took_s < _BRIEF_S:
            time.sleep(_PAUSE_S * pause / 255)
            self._spare.append(self._runtime.allocate((64 * (padding + 1),), "uint8"))
            self._tensors = [self._filled(tensor, self._inputs, shift + 1) for tensor in self._order.tensors]
            self._bind()
            self._timer.call()
            most = int(_BURST_S / max(took_s, _MIN_CALL_S))
            self._timer.seconds_per_call(1 + most * (calls + 1) // 256)
        self._tensors = [self._filled(tensor, self._inputs) for tensor in self._order.tensors]
        self._bind()
        self._timer.call()

    def shares_cache(self) -> bool:
        """Whether its first two threads are as near to each other as threads with a common cache are."""
        return self._distance is None or self._distance.is_near()

    def samples_s(self) -> Sequence[float]:
        """Seconds per call by the whole protocol, the fastest of several rounds.

        In one round two threads may share a physical core, or a processor be slow at this one kernel until it has slept
        once, and nothing here tells. A round that takes no longer than the likely latency, where one is known, is
        enough.
        """
        enough_s = AS_LIKELY * (self._order.likely_s or 0.0)
        began_s = time.monotonic()
        rounds = [self._round()]
        while len(rounds) < ROUNDS and middle(rounds[-1]) > enough_s and time.monotonic() - began_s < _ENOUGH_S:
            sleep_burst()
            rounds.append(self._round())
        return min(rounds, key=middle)

    def samples_of_both_s(self) -> tuple[Sequence[float], Sequence[float]]:
        """The same for this library and its rival, of rounds in turn, every other one begun by the rival.

        It takes another round for as long as one of the two has not been twice about as fast as it ever was, so that
        neither is judged by a state of the processor that the other one met only once.
        """
        assert self._rival is not None, "there is a rival"
        began_s = time.monotonic()
        timers, rounds = (self._timer, self._rival), ([self._round()], [_round_of(self._rival)])
        while len(rounds[0]) < ROUNDS and not (len(rounds[0]) > 1 and all(map(_is_settled, rounds))):
            if len(rounds[0]) > 1 and time.monotonic() - began_s > 2 * _ENOUGH_S:
                break
            sleep_burst()
            for side in (1, 0) if len(rounds[0]) % 2 else (0, 1):
                rounds[side].append(_round_of(timers[side]))
        return min(rounds[0], key=middle), min(rounds[1], key=middle)

    def _round(self) -> Sequence[float]:
        return _round_of(self._timer)

    def _rival_module(self, rival: RivalOrder | None) -> Held | None:
        if rival is None:
            return None
        _require_whole(rival)
        return self._runtime.load(rival.library)

    def _timer_of(self, module: Held | None, entry: str, tensors: list[Held]) -> CallTimer:
        return CallTimer(module, entry, tensors, self._runtime.function(EVALUATOR), self._flush)

    def _bind(self) -> None:
        """Call with the present tensors from now on."""
        self._timer = self._timer_of(self._module, self._order.entry, self._packed())

    def _filled(self, tensor: TensorOrder, inputs: memoryview, shift: int = 0) -> Held:
        """A new tensor with its contents, which begin ``shift`` elements later and go on at their beginning.

        Without contents it holds what no kernel computes, so that an output that is not written shows.
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

    def _packed(self) -> list[Held]:
        """The tensors with the packed ones in place of the plain ones they are made of."""
        order = self._order
        if order.pack_entry is None:
            return self._tensors
        packed = {tensor.name: self._runtime.allocate(tensor.shape, tensor.dtype) for tensor in order.packed}
        pairs = list(zip(order.tensors, self._tensors, strict=True))
        self._module[order.pack_entry](*(held for tensor, held in pairs if tensor.name in packed), *packed.values())
        return [packed.get(tensor.name, held) for tensor, held in pairs]


def _require_whole(order: LibraryOrder | RivalOrder) -> None:
    """Raise ``WrongLibrary`` unless the file holds the library that ``order`` names."""
    with open(order.library, "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than this to run
        require_digest(file.read(), order)


def _round_of(timer: CallTimer) -> Sequence[float]:
    return calm_samples(timer.seconds_per_call, timer.seconds_per_call(1))


def _is_settled(rounds: Sequence[Sequence[float]]) -> bool:
    """Whether two of the rounds are about as fast as the fastest."""
    medians_s = sorted(map(middle, rounds))
    return medians_s[1] <= AS_LIKELY * medians_s[0]
