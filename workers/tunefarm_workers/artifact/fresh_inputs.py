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

_MAKE_S = 120.0
_GONE_S = 5.0


class FreshInputs:
    """They are being made from the start on; processes may be given ``descriptor`` at once."""

    def __init__(self, zygote: ForkServer, order: InputsOrder, limits: Limits) -> None:
        """Fork the child. Raises ``ForkFailed``."""
        layout = LibraryInputs.of(order.arguments)
        self.tensors: tuple[TensorOrder, ...] = layout.tensors
        self._memory = SharedMemory("inputs", layout.size_bytes)
        try:
            self.child = zygote.fork(
                "tunefarm_workers.child.input_child:run",
                order.model_dump_json().encode(),
                limits=limits,
                confinement=Confinement.strict(),
                descriptors=[self._memory.descriptor],
            )
            # Opened again, for reading only: a mapping for writing would keep the memory from being sealed.
            self.descriptor = os.open(f"/proc/self/fd/{self._memory.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self._memory.close()
            raise

    def wait(self, on_wait: OnWait) -> None:
        """Wait until they are made. From then on no process can change them. Raises ``ChildFailed``."""
        made = answer_of(self.child, _MAKE_S, "making inputs", on_wait)
        self.child.kill()
        self.child.exit(_GONE_S)  # what it has mapped would keep the memory from being sealed
        self.child.close()
        try:
            self._memory.seal()
            with mmap.mmap(self._memory.descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as held:
                if digest(held[:]).encode() != made:
                    raise NotSealed("they are not what was made")
        except NotSealed as error:
            message = f"Another process reached for the inputs: {error}"
            failure = TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)
            raise ChildFailed(failure, may_be_tried_again=True) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()
        self._memory.close()
        os.close(self.descriptor)
