"""A compiled library with tensors to call it on, in a process that has TVM's runtime only."""

import os
from collections.abc import Sequence
from hashlib import sha256

from tunefarm_workers.call_timer import EVALUATOR, CallTimer
from tunefarm_workers.core_distance import CoreDistance
from tunefarm_workers.core_sharing import doze
from tunefarm_workers.library_order import LibraryOrder, TensorOrder
from tunefarm_workers.runtime_library import Held, Runtime
from tunefarm_workers.sampling import calm_samples, middle
from tunefarm_workers.thread_cores import place_on_cores

ROUNDS = 6
"""After each doze about half of the slow states of a processor are gone; three rounds of a softmax were all slow in
three of twenty processes."""
AS_LIKELY = 1.05


class WrongLibrary(Exception):
    """Raised for a library that is not the one that was meant."""


def require_digest(contents: bytes, order: LibraryOrder) -> None:
    """Raise ``WrongLibrary`` unless ``contents`` are those of the library that ``order`` names."""
    if sha256(contents).hexdigest() != order.digest:
        raise WrongLibrary(f"{os.path.basename(order.library)} is not the library its manifest describes")  # noqa: PTH119


def _in_memory(contents: bytes) -> str:
    """A path to a copy that no other process can change between the check and the loader's own reading.

    The descriptor stays open: the loader takes a second library under the same path for the first one.
    """
    descriptor = os.memfd_create("library", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(contents)
    return f"/proc/self/fd/{descriptor}"


class LoadedLibrary:
    """Called by ``call``, then timed by ``samples_s``."""

    def __init__(self, runtime: Runtime, order: LibraryOrder, inputs: memoryview) -> None:
        """Load the library of ``order`` and fill its tensors from ``inputs``.

        Raises:
            WrongLibrary: its digest is not the expected one.
            RuntimeFailed: it does not load.
        """
        with open(order.library, "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than this to run
            contents = file.read()
        require_digest(contents, order)
        os.environ["TVM_NUM_THREADS"] = str(order.num_cores)
        place_on_cores(order.num_cores, runtime.function("runtime.config_threadpool"))
        self._runtime = runtime
        self._order = order
        self._module = runtime.load(_in_memory(contents))
        self._distance = CoreDistance(runtime.library) if order.num_cores > 1 else None
        self._tensors = [self._filled(tensor, inputs) for tensor in order.tensors]
        self._timer = CallTimer(
            self._module,
            order.entry,
            self._packed(),
            runtime.function(EVALUATOR),
            cold_cache=order.cold_cache,
        )

    def call(self) -> None:
        """Call it once."""
        self._timer.call()

    def outputs(self) -> list[bytes]:
        """The contents of each output."""
        pairs = zip(self._order.tensors, self._tensors, strict=True)
        return [held.memory().tobytes() for tensor, held in pairs if tensor.is_output]

    def is_on_near_cores(self) -> bool:
        """Whether its first two threads are as near to each other as threads with a common cache are."""
        return self._distance is None or self._distance.is_near()

    def samples_s(self) -> Sequence[float]:
        """Seconds per call by the whole protocol, the fastest of several rounds.

        In one round two threads may share a physical core, or a processor be slow at this one kernel until it has slept
        once, and nothing here tells. A round that takes no longer than the likely latency, where one is known, is
        enough.
        """
        enough_s = AS_LIKELY * (self._order.likely_s or 0.0)
        rounds = [self._round()]
        while len(rounds) < ROUNDS and middle(rounds[-1]) > enough_s:
            doze()
            rounds.append(self._round())
        return min(rounds, key=middle)

    def _round(self) -> Sequence[float]:
        return calm_samples(self._timer.seconds_per_call, self._timer.seconds_per_call(1))

    def _filled(self, tensor: TensorOrder, inputs: memoryview) -> Held:
        held = self._runtime.allocate(tensor.shape, tensor.dtype)
        if tensor.input_offset_bytes is not None:
            memory = held.memory()
            memory[:] = inputs[tensor.input_offset_bytes : tensor.input_offset_bytes + len(memory)]
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
