"""Access to a board through TVM's RPC."""

import itertools
import mmap
from typing import Any

import numpy as np
import tvm
from tvm import rpc

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import numpy_type
from tunefarm_workers.correctness.guarded_tensor import unwritten_byte
from tunefarm_workers.correctness.inputs import InputArray
from tunefarm_workers.gateway.board_connection import BoardConnection

_ALL_CORES_EVENLY = 0
_SESSION_ENDED = "RPCSessionTimeoutError"


class RpcBench:
    """One session with a board's server."""

    on_processor = True
    index = 0

    def __init__(self, connection: BoardConnection) -> None:
        """Connect. Raises TVM's errors if the server does not answer."""
        self._session: Any = rpc.connect(
            connection.host, connection.port, connection.key, session_timeout=connection.session_s
        )
        self._device: Any = self._session.device("cpu", 0)
        self.device_type = int(self._device.dlpack_device_type())
        self._numbers = itertools.count()

    def load(self, library: int) -> Any:
        """Upload a library under a unique name, and load it."""
        with mmap.mmap(library, 0, prot=mmap.PROT_READ) as contents:
            name = f"kernel-{next(self._numbers)}.so"
            self._session.upload(bytearray(contents[:]), name)
        return self._session.load_module(name)

    def place(self, array: InputArray, tensor: TensorArgument) -> Any:
        """Copy ``array`` to the board's memory."""
        if tensor.dtype == "bool":
            return tvm.runtime.empty(tensor.shape, "bool", self._device).copyfrom(array.astype(np.bool_))
        return tvm.runtime.tensor(array, self._device)

    def empty(self, tensor: TensorArgument) -> Any:
        """Allocate memory with undefined contents on the board."""
        return tvm.runtime.empty(tensor.shape, tensor.dtype, self._device)

    def output(self, tensor: TensorArgument) -> "BoardOutput":
        """Allocate memory for an output."""
        return BoardOutput(tensor, self._device)

    def synchronize(self) -> None:
        """Nothing to wait for: calls return after they ended."""

    def use_threads(self, num_cores: int) -> None:
        """Set the number of threads that kernels use on the board."""
        self._session.get_function("runtime.config_threadpool")(_ALL_CORES_EVENLY, num_cores)

    def is_lost(self, error: BaseException) -> bool:
        """Whether an error means a lost connection: an error that the board itself reports is the kernel's.

        The board also reports that it ends the session, as another kind of the same error.
        """
        if _SESSION_ENDED in str(error):
            return True
        return isinstance(error, tvm.error.InternalError | OSError) and not isinstance(error, tvm.error.RPCError)


class BoardOutput:
    """One output on a board.

    Without guard zones: kernels accept no tensor at an offset in another one, and the protocol transfers no pointers.
    """

    def __init__(self, tensor: TensorArgument, device: Any) -> None:
        kind = numpy_type(tensor.dtype)
        self._as_bool = tensor.dtype == "bool"
        size_bytes = tensor.elements * kind.itemsize
        self._unwritten = np.full(size_bytes, unwritten_byte(tensor.dtype), np.uint8).view(kind).reshape(tensor.shape)
        self.tensor: Any = tvm.runtime.empty(tensor.shape, tensor.dtype, device)
        self.clear()

    def clear(self) -> None:
        """Overwrite the contents with bytes that no kernel computes."""
        self.fill(self._unwritten)

    def fill(self, contents: InputArray) -> None:
        """Set the contents of an output that is read as well."""
        self.tensor.copyfrom(contents.astype(np.bool_) if self._as_bool else contents)

    def contents(self) -> np.ndarray[Any, Any]:
        """Return the present contents."""
        return np.ascontiguousarray(self.tensor.numpy()).reshape(-1).view(np.uint8)

    def guards_hold(self) -> bool:
        """Return True: there are no guard zones."""
        return True
