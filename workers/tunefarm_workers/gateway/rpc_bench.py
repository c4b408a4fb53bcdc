"""A board behind TVM's RPC."""

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
    """One session with the server of a board."""

    on_processor = True
    index = 0

    def __init__(self, connection: BoardConnection) -> None:
        """Connect. Raises what TVM raises when nobody answers."""
        self._session: Any = rpc.connect(
            connection.host, connection.port, connection.key, session_timeout=connection.session_s
        )
        self._device: Any = self._session.device("cpu", 0)
        self.device_type = int(self._device.dlpack_device_type())
        self._numbers = itertools.count()

    def load(self, library: int) -> Any:
        """Send a library under a name of its own and have it loaded."""
        with mmap.mmap(library, 0, prot=mmap.PROT_READ) as contents:
            name = f"kernel-{next(self._numbers)}.so"
            self._session.upload(bytearray(contents[:]), name)
        return self._session.load_module(name)

    def place(self, array: InputArray, tensor: TensorArgument) -> Any:
        """``array`` in the board's memory."""
        if tensor.dtype == "bool":
            return tvm.runtime.empty(tensor.shape, "bool", self._device).copyfrom(array.astype(np.bool_))
        return tvm.runtime.tensor(array, self._device)

    def empty(self, tensor: TensorArgument) -> Any:
        """Memory of the board whose contents do not matter."""
        return tvm.runtime.empty(tensor.shape, tensor.dtype, self._device)

    def output(self, tensor: TensorArgument) -> "BoardOutput":
        """Memory for an output."""
        return BoardOutput(tensor, self._device)

    def synchronize(self) -> None:
        """Every call has ended when it returns."""

    def use_threads(self, num_cores: int) -> None:
        """Have kernels take that many threads of the board."""
        self._session.get_function("runtime.config_threadpool")(_ALL_CORES_EVENLY, num_cores)

    def is_lost(self, error: BaseException) -> bool:
        """An error that the board itself reports is a kernel's; any other of TVM's is the connection's."""
        if isinstance(error, tvm.error.RPCError):
            return False
        return isinstance(error, tvm.error.InternalError | OSError) or _SESSION_ENDED in str(error)


class BoardOutput:
    """One output on a board.

    What lies around it cannot be guarded: kernels take no tensor that begins within another one, and the protocol moves
    no pointers.
    """

    def __init__(self, tensor: TensorArgument, device: Any) -> None:
        kind = numpy_type(tensor.dtype)
        self._as_bool = tensor.dtype == "bool"
        size_bytes = tensor.elements * kind.itemsize
        self._unwritten = np.full(size_bytes, unwritten_byte(tensor.dtype), np.uint8).view(kind).reshape(tensor.shape)
        self.tensor: Any = tvm.runtime.empty(tensor.shape, tensor.dtype, device)
        self.clear()

    def clear(self) -> None:
        """Overwrite the contents with something no kernel computes."""
        self.fill(self._unwritten)

    def fill(self, contents: InputArray) -> None:
        """Set the contents, for an output that is read as well."""
        self.tensor.copyfrom(contents.astype(np.bool_) if self._as_bool else contents)

    def contents(self) -> np.ndarray[Any, Any]:
        """The bytes as they are now."""
        return np.ascontiguousarray(self.tensor.numpy()).reshape(-1).view(np.uint8)

    def guards_hold(self) -> bool:
        """Nothing is guarded."""
        return True
