"""A device that this process can address: a graphics processor, or the host's own processor in its place."""

from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.element_type import size_in_bytes
from tunefarm_workers.correctness.guarded_tensor import GUARD_BYTES, GUARD_VALUE, unwritten_byte
from tunefarm_workers.correctness.inputs import InputArray
from tunefarm_workers.session.device.offset_view import view_within
from tunefarm_workers.threads.thread_placement import place_threads


class LocalBench:
    """Loads libraries from descriptors, and keeps a margin around every output."""

    def __init__(self, kind: str, index: int) -> None:
        """Open the device.

        Raises:
            RuntimeError: when there is none.
        """
        self._device: Any = tvm.runtime.device(kind, index)
        if not self._device.exist:
            raise RuntimeError(f"this host has no {kind} device {index}, or its driver does not work")
        self.device_type = int(self._device.dlpack_device_type())
        self.index = index
        self.on_processor = kind == "cpu"
        self._load = tvm_ffi.get_global_func("ffi.Module.load_from_file.so")
        self._libraries: list[int] = []

    def load(self, library: int) -> Any:
        """The module of a library.

        The descriptor is never closed: the loader takes two libraries of one name for the same, and would give the
        first one for the second.
        """
        self._libraries.append(library)
        return self._load(f"/proc/self/fd/{library}", "so")

    def place(self, array: InputArray, tensor: TensorArgument) -> Any:
        """``array`` in the device's memory."""
        if tensor.dtype == "bool":
            return tvm.runtime.empty(tensor.shape, "bool", self._device).copyfrom(array.astype(np.bool_))
        return tvm.runtime.tensor(array, self._device)

    def empty(self, tensor: TensorArgument) -> Any:
        """Memory of the device whose contents do not matter."""
        return tvm.runtime.empty(tensor.shape, tensor.dtype, self._device)

    def output(self, tensor: TensorArgument) -> "MarginOutput":
        """Memory for an output, with a margin around it."""
        return MarginOutput(tensor, self._device)

    def synchronize(self) -> None:
        """Wait until the device has done all it was told."""
        self._device.sync()

    def use_threads(self, num_cores: int) -> None:
        """Have kernels on a processor take that many threads."""
        if self.on_processor and num_cores > 0:
            place_threads(num_cores)

    def is_lost(self, error: BaseException) -> bool:  # noqa: ARG002 - a device in this host is lost with this process
        """A fault of a kernel leaves the device there; that this process is of no more use, its owner assumes."""
        return False


class MarginOutput:
    """One output with a page on either side that no correct kernel touches."""

    def __init__(self, tensor: TensorArgument, device: Any) -> None:
        self._size_bytes = max(size_in_bytes(tensor), 1)
        self._unwritten = unwritten_byte(tensor.dtype)
        self._whole = tvm.runtime.empty((self._size_bytes + 2 * GUARD_BYTES,), "uint8", device)
        self.tensor: Any = view_within(self._whole, GUARD_BYTES, tensor)
        self.clear()

    def clear(self) -> None:
        """Overwrite the contents with something no kernel computes, and the margin with its mark."""
        self._put(np.full(self._size_bytes, self._unwritten, np.uint8))

    def fill(self, contents: InputArray) -> None:
        """Set the contents, for an output that is read as well."""
        self._put(np.ascontiguousarray(contents).reshape(-1).view(np.uint8))

    def contents(self) -> np.ndarray[Any, Any]:
        """The bytes as they are now."""
        whole: np.ndarray[Any, Any] = self._whole.numpy()
        return whole[GUARD_BYTES:-GUARD_BYTES]

    def guards_hold(self) -> bool:
        """Whether both margins are as they were."""
        whole = self._whole.numpy()
        return bool((whole[:GUARD_BYTES] == GUARD_VALUE).all() and (whole[-GUARD_BYTES:] == GUARD_VALUE).all())

    def _put(self, inside: np.ndarray[Any, Any]) -> None:
        whole = np.full(self._size_bytes + 2 * GUARD_BYTES, GUARD_VALUE, np.uint8)
        whole[GUARD_BYTES:-GUARD_BYTES] = inside
        self._whole.copyfrom(whole)
