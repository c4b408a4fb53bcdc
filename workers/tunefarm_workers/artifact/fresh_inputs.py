"""Inputs for fresh processes, made once in a confined child."""

import mmap
import os
from typing import Self

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_workers.artifact.library_inputs import LibraryInputs
from tunefarm_workers.artifact.library_order import TensorOrder
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of
from tunefarm_workers.conversation.messages import InputsOrder
from tunefarm_workers.conversation.shared_memory import NotSealed, SharedMemory

_MAKE_TIMEOUT_S = 120.0
_EXIT_TIMEOUT_S = 5.0


class FreshInputs:
    """Starts to make the inputs at once; ``descriptor`` may be passed to processes before they are complete."""

    def __init__(self, fork_server: ForkServer, order: InputsOrder, limits: Limits) -> None:
        """Fork the child. Raises ``ForkFailed``."""
        layout = LibraryInputs.of(order.arguments)
        self.tensors: tuple[TensorOrder, ...] = layout.tensors
        self._memory = SharedMemory("inputs", layout.size_bytes)
        try:
            self.child = fork_server.fork(
                "tunefarm_workers.child.input_child:run",
                order.model_dump_json().encode(),
                limits=limits,
                confinement=Confinement.strict(),
                descriptors=[self._memory.descriptor],
            )
            # Reopened read-only, because a writable mapping in another process prevents sealing.
            self.descriptor = os.open(f"/proc/self/fd/{self._memory.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self._memory.close()
            raise

    def wait(self, on_wait: OnWait) -> None:
        """Wait until the inputs are complete, and seal them against changes. Raises ``ChildFailed``."""
        made = answer_of(self.child, _MAKE_TIMEOUT_S, "making inputs", on_wait)
        self.child.kill()
        self.child.exit(_EXIT_TIMEOUT_S)  # its writable mapping prevents sealing
        self.child.close()
        try:
            self._memory.seal()
            with mmap.mmap(self._memory.descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as held:
                if digest(held[:]).encode() != made:
                    raise NotSealed("their digest differs")
        except NotSealed as error:
            message = f"Another process accessed the inputs: {error}"
            failure = TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)
            raise ChildFailed(failure, may_be_tried_again=True) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()
        self._memory.close()
        os.close(self.descriptor)
