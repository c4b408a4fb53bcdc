"""A device that this process can address: a graphics processor, or the host's processor as a stand-in."""

import ctypes
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
    """Loads libraries from descriptors, and surrounds every output with margins."""

    def __init__(self, kind: str, index: int) -> None:
        """Open the device. Raises ``RuntimeError`` if it does not exist."""
        self._device: Any = tvm.runtime.device(kind, index)
        if not self._device.exist:
            raise RuntimeError(f"this host has no {kind} device {index}, or its driver does not work{_why_not(kind)}")
        self.device_type = int(self._device.dlpack_device_type())
        self.index = index
        self.on_processor = kind == "cpu"
        self._load = tvm_ffi.get_global_func("ffi.Module.load_from_file.so")
        self._libraries: list[int] = []

    def load(self, library: int) -> Any:
        """Load a library from the descriptor ``library``, which stays open.

        The dynamic loader identifies libraries by path: with a reused descriptor it would return the earlier library.
        """
        self._libraries.append(library)
        return self._load(f"/proc/self/fd/{library}", "so")

    def place(self, array: InputArray, tensor: TensorArgument) -> Any:
        """Copy ``array`` to the device."""
        if tensor.dtype == "bool":
            return tvm.runtime.empty(tensor.shape, "bool", self._device).copyfrom(array.astype(np.bool_))
        return tvm.runtime.tensor(array, self._device)

    def empty(self, tensor: TensorArgument) -> Any:
        """Allocate an uninitialized tensor on the device."""
        return tvm.runtime.empty(tensor.shape, tensor.dtype, self._device)

    def output(self, tensor: TensorArgument) -> "MarginOutput":
        """Allocate an output with margins."""
        return MarginOutput(tensor, self._device)

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""
        self._device.sync()

    def use_threads(self, num_cores: int) -> None:
        """Set the number of threads of kernels on a processor."""
        if self.on_processor and num_cores > 0:
            place_threads(num_cores)

    def is_lost(self, error: BaseException) -> bool:  # noqa: ARG002 - whatever it is
        """False: a local device survives a kernel's fault. The session ends after every fault anyway."""
        return False


def _why_not(kind: str) -> str:
    """What NVIDIA's driver says about itself, if that is the driver of ``kind``."""
    if kind != "cuda":
        return ""
    try:
        status = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as error:
        return f": {error}"
    # 304 is an operation that the system denied, which confinement does as well.
    return f": cuInit returned {status}"


class MarginOutput:
    """One output between two margins that no correct kernel writes."""

    def __init__(self, tensor: TensorArgument, device: Any) -> None:
        self._size_bytes = max(size_in_bytes(tensor), 1)
        self._unwritten = unwritten_byte(tensor.dtype)
        self._whole = tvm.runtime.empty((self._size_bytes + 2 * GUARD_BYTES,), "uint8", device)
        self.tensor: Any = view_within(self._whole, GUARD_BYTES, tensor)
        self.clear()

    def clear(self) -> None:
        """Overwrite the contents with bytes that no kernel computes, and reset the margins."""
        self._put(np.full(self._size_bytes, self._unwritten, np.uint8))

    def fill(self, contents: InputArray) -> None:
        """Set the contents, for an output that the kernel also reads."""
        self._put(np.ascontiguousarray(contents).reshape(-1).view(np.uint8))

    def contents(self) -> np.ndarray[Any, Any]:
        """The bytes of the output."""
        whole: np.ndarray[Any, Any] = self._whole.numpy()
        return whole[GUARD_BYTES:-GUARD_BYTES]

    def guards_hold(self) -> bool:
        """Whether both margins are unchanged."""
        whole = self._whole.numpy()
        return bool((whole[:GUARD_BYTES] == GUARD_VALUE).all() and (whole[-GUARD_BYTES:] == GUARD_VALUE).all())

    def _put(self, inside: np.ndarray[Any, Any]) -> None:
        whole = np.full(self._size_bytes + 2 * GUARD_BYTES, GUARD_VALUE, np.uint8)
        whole[GUARD_BYTES:-GUARD_BYTES] = inside
        self._whole.copyfrom(whole)
