"""The operations on a device that its child needs."""

from typing import Any, Protocol

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.inputs import InputArray


class DeviceOutput(Protocol):
    """Memory on the device for one output."""

    @property
    def tensor(self) -> Any:
        """The argument for the kernel."""

    def clear(self) -> None:
        """Overwrite the contents with bytes that no kernel computes."""

    def fill(self, contents: InputArray) -> None:
        """Set the contents, for an output that the kernel also reads."""

    def contents(self) -> np.ndarray[Any, Any]:
        """The bytes of the output, without its margins."""

    def guards_hold(self) -> bool:
        """Whether the margins are unchanged; true for a device without margins."""


class Bench(Protocol):
    """Loads libraries, holds tensors, and synchronizes with the device."""

    @property
    def device_type(self) -> int:
        """The device's DLPack type, for TVM's timer."""

    @property
    def index(self) -> int:
        """The device's index among those of its type."""

    @property
    def on_processor(self) -> bool:
        """Whether kernels run on a processor."""

    def load(self, library: int) -> Any:
        """Load a library from the descriptor ``library``, which the bench owns from now on."""

    def place(self, array: InputArray, tensor: TensorArgument) -> Any:
        """Copy ``array`` to the device."""

    def empty(self, tensor: TensorArgument) -> Any:
        """Allocate an uninitialized tensor on the device."""

    def output(self, tensor: TensorArgument) -> DeviceOutput:
        """Allocate an output on the device."""

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""

    def use_threads(self, num_cores: int) -> None:
        """Set the number of threads of kernels on a processor; ignored by other devices."""

    def is_lost(self, error: BaseException) -> bool:
        """Whether ``error`` means that the device or its connection is lost, rather than a faulty kernel."""
