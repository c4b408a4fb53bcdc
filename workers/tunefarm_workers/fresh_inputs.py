"""Inputs for fresh processes, made once in a confined child."""

import os
from typing import Self

from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_workers.child_answer import OnWait, answer_of
from tunefarm_workers.library_inputs import LibraryInputs
from tunefarm_workers.library_order import TensorOrder
from tunefarm_workers.messages import InputsOrder
from tunefarm_workers.shared_memory import SharedMemory

_MAKE_S = 120.0


class FreshInputs:
    """They are being made from the start on; processes may be given ``descriptor`` at once."""

    def __init__(self, zygote: ForkServer, order: InputsOrder, limits: Limits) -> None:
        """Fork the child. Raises ``ForkFailed``."""
        layout = LibraryInputs.of(order.arguments)
        self.tensors: tuple[TensorOrder, ...] = layout.tensors
        self._memory = SharedMemory("inputs", layout.size_bytes)
        try:
            self.child = zygote.fork(
                "tunefarm_workers.input_child:run",
                order.model_dump_json().encode(),
                limits=limits,
                confinement=Confinement.strict(),
                descriptors=[self._memory.descriptor],
            )
            # Opened anew, for reading only: what one process does to its inputs must not reach the next.
            self.descriptor = os.open(f"/proc/self/fd/{self._memory.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self._memory.close()
            raise

    def wait(self, on_wait: OnWait) -> None:
        """Wait until they are made. Raises ``ChildFailed``."""
        answer_of(self.child, _MAKE_S, "making inputs", on_wait)
        self.child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()
        self._memory.close()
        os.close(self.descriptor)
