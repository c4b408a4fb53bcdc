"""A fresh process that loads and times a compiled library, as its parent controls it."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from math import prod
from pathlib import Path
from statistics import median
from typing import Self, TypeAlias

import numpy as np
from pydantic import PositiveFloat, TypeAdapter

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Timing
from tunefarm_workers.artifact.fresh_inputs import FreshInputs
from tunefarm_workers.artifact.fresh_process import package_folders
from tunefarm_workers.artifact.library_order import LibraryOrder, TensorOrder
from tunefarm_workers.artifact.library_runner import NEAR, OUTPUTS_AGAIN, SHARES_CACHE, TIME, TIME_BOTH
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of
from tunefarm_workers.correctness.element_type import numpy_type
from tunefarm_workers.correctness.tolerance import Array

_LOAD_S = 60.0
_TIME_S = 60.0
_EXIT_TIMEOUT_S = 2.0
_INVALID_SAMPLES = "The library's process sent invalid samples."
_Samples: TypeAlias = tuple[PositiveFloat, ...]
_samples: TypeAdapter[_Samples] = TypeAdapter(_Samples)
_samples_of_both: TypeAdapter[tuple[_Samples, _Samples]] = TypeAdapter(tuple[_Samples, _Samples])


class FreshRunner:
    """Starts its child at once; the child loads the library when its turn comes.

    Close one runner before the next one loads: the spinning threads of a loaded library disturb other timings.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        inputs: FreshInputs,
        num_cores: int,
        folder: Path,
        limits: Limits,
        on_wait: OnWait,
    ) -> None:
        """``folder`` is where the library will be written. Raises ``ForkFailed``."""
        self._on_wait = on_wait
        self.child: Child = fork_server.fork(
            "tunefarm_workers.artifact.fresh_process:become_runner",
            str(num_cores).encode(),
            # None while it waits; loading, running and timing use all its threads.
            limits=limits.with_processor_time(num_cores * (2 * _LOAD_S + 2 * _TIME_S)),
            confinement=Confinement(readable=(str(folder), *package_folders()), may_exec=True, may_pin_threads=True),
            descriptors=[inputs.descriptor],
        )

    def wait_until_ready(self) -> None:
        """Wait until it can load a library. Raises ``ChildFailed``, as the methods below do."""
        answer_of(self.child, _LOAD_S, "starting", self._on_wait)

    def outputs(self, order: LibraryOrder) -> list[Array]:
        """Load the library, call it once, and return its outputs for the first set of inputs."""
        with ExitStack() as stack:
            libraries = []
            for path in (order.library, *(() if order.rival is None else (order.rival.library,))):
                try:
                    libraries.append(sealed(Path(path).read_bytes()))
                except OSError as error:
                    raise _crashed(f"The library cannot be read: {error}.") from error
                stack.callback(os.close, libraries[-1])
            self._send(order.to_json(), libraries)
        return self._outputs(order)

    def outputs_again(self, order: LibraryOrder) -> list[Array]:
        """Return the outputs for the same inputs after a pause, many calls, and other inputs and addresses."""
        self._send(OUTPUTS_AGAIN)
        return self._outputs(order)

    def shares_cache(self) -> bool:
        """Whether the first two threads of the loaded library share a cache now."""
        self._send(SHARES_CACHE)
        return answer_of(self.child, _TIME_S, "running", self._on_wait) == NEAR

    def time(self) -> Timing:
        """Time the loaded library."""
        self._send(TIME)
        try:
            return _timing(_samples.validate_json(answer_of(self.child, _TIME_S, "running", self._on_wait)))
        except ValueError as error:  # also raised by statistics for no samples
            raise _crashed(_INVALID_SAMPLES) from error

    def time_both(self) -> tuple[Timing, Timing]:
        """Time the library and its rival in turn."""
        self._send(TIME_BOTH)
        try:
            own_s, rival_s = _samples_of_both.validate_json(answer_of(self.child, _TIME_S, "running", self._on_wait))
            return _timing(own_s), _timing(rival_s)
        except ValueError as error:
            raise _crashed(_INVALID_SAMPLES) from error

    def close(self) -> None:
        """Kill the child and wait until it is gone; idempotent."""
        self.child.kill()
        self.child.exit(_EXIT_TIMEOUT_S)
        self.child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _outputs(self, order: LibraryOrder) -> list[Array]:
        return [self._output(tensor) for tensor in order.tensors if tensor.is_output]

    def _output(self, tensor: TensorOrder) -> Array:
        contents = answer_of(self.child, _LOAD_S, "loading the library", self._on_wait)
        kind = numpy_type(tensor.dtype)
        if len(contents) != prod(tensor.shape) * kind.itemsize:
            raise _crashed(f"The library returned {len(contents)} bytes for {tensor.name}.")
        return np.frombuffer(contents, kind).reshape(tensor.shape)

    def _send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        with suppress(ChannelClosed, TimeoutError):  # the child is dead; reading its answer raises
            self.child.channel.send(message, descriptors, timeout_s=_LOAD_S)


def _timing(samples_s: _Samples) -> Timing:
    return Timing(latency_s=median(samples_s), samples_s=samples_s)


def _crashed(message: str) -> ChildFailed:
    return ChildFailed(TrialFailure(reason=FailureReason.CRASH, message=message))
