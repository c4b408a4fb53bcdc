"""A fresh process that loads a compiled library, as the one who wants its time holds it."""

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
from tunefarm_workers.artifact.library_runner import AGAIN, BOTH, GO, NEAR, WHERE
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of
from tunefarm_workers.correctness.element_type import numpy_type
from tunefarm_workers.correctness.tolerance import Array

_LOAD_S = 60.0
_TIME_S = 60.0
_GONE_S = 2.0
_NO_TIME = "The library's process sent something that is no time."
_Samples: TypeAlias = tuple[PositiveFloat, ...]
_samples: TypeAdapter[_Samples] = TypeAdapter(_Samples)
_samples_of_both: TypeAdapter[tuple[_Samples, _Samples]] = TypeAdapter(tuple[_Samples, _Samples])


class FreshRunner:
    """Its child starts at once, beside others, and loads the library only when its turn has come.

    A loaded library has threads that disturb whoever is timed meanwhile, so one runner is closed before the next loads.
    """

    def __init__(
        self, zygote: ForkServer, inputs: FreshInputs, num_cores: int, folder: Path, limits: Limits, on_wait: OnWait
    ) -> None:
        """``folder`` will hold the library. Raises ``ForkFailed``."""
        self._on_wait = on_wait
        self.child: Child = zygote.fork(
            "tunefarm_workers.artifact.fresh_process:become_runner",
            str(num_cores).encode(),
            # Waiting for its turn it uses none; then it loads, runs, and is timed, each with all its threads.
            limits=limits.with_processor_time(num_cores * (2 * _LOAD_S + 2 * _TIME_S)),
            confinement=Confinement(readable=(str(folder), *package_folders()), may_exec=True, may_pin_threads=True),
            descriptors=[inputs.descriptor],
        )

    def wait_until_ready(self) -> None:
        """Wait until it can load a library. Raises ``ChildFailed``, as what follows does."""
        answer_of(self.child, _LOAD_S, "starting", self._on_wait)

    def outputs(self, order: LibraryOrder) -> list[Array]:
        """Load the library and call it once: what it gives for the first set of inputs."""
        with ExitStack() as stack:
            libraries = []
            for path in (order.library, *(() if order.rival is None else (order.rival.library,))):
                try:
                    libraries.append(sealed(Path(path).read_bytes()))
                except OSError as error:
                    raise _crashed(f"The library cannot be read: {error}.") from error
                stack.callback(os.close, libraries[-1])
            self._say(order.to_json(), libraries)
        return self._outputs(order)

    def outputs_again(self, order: LibraryOrder) -> list[Array]:
        """What the loaded library gives for the same inputs after a pause, many calls, other inputs and addresses."""
        self._say(AGAIN)
        return self._outputs(order)

    def shares_cache(self) -> bool:
        """Whether the library that was loaded finds its threads near to each other now."""
        self._say(WHERE)
        return answer_of(self.child, _TIME_S, "running", self._on_wait) == NEAR

    def time(self) -> Timing:
        """Take the time of the library that was loaded."""
        self._say(GO)
        try:
            return _timing(_samples.validate_json(answer_of(self.child, _TIME_S, "running", self._on_wait)))
        except ValueError as error:  # statistics' own error for no samples is one as well
            raise _crashed(_NO_TIME) from error

    def time_both(self) -> tuple[Timing, Timing]:
        """Take the time of the library and of its rival, in turn."""
        self._say(BOTH)
        try:
            own_s, rival_s = _samples_of_both.validate_json(answer_of(self.child, _TIME_S, "running", self._on_wait))
            return _timing(own_s), _timing(rival_s)
        except ValueError as error:
            raise _crashed(_NO_TIME) from error

    def close(self) -> None:
        """End the child and wait until it is gone; harmless when repeated."""
        self.child.kill()
        self.child.exit(_GONE_S)
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
            raise _crashed(f"The library gave {len(contents)} bytes for {tensor.name}.")
        return np.frombuffer(contents, kind).reshape(tensor.shape)

    def _say(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        with suppress(ChannelClosed, TimeoutError):  # then it is dead, and its answer tells
            self.child.channel.send(message, descriptors, timeout_s=_LOAD_S)


def _timing(samples_s: _Samples) -> Timing:
    return Timing(latency_s=median(samples_s), samples_s=samples_s)


def _crashed(message: str) -> ChildFailed:
    return ChildFailed(TrialFailure(reason=FailureReason.CRASH, message=message))
