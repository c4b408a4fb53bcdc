"""A device as the child that holds it uses it."""

from typing import Any, Protocol

import numpy as np

from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.correctness.inputs import InputArray


class DeviceOutput(Protocol):
    """Memory on the device for one output."""

    @property
    def tensor(self) -> Any:
        """What a kernel is called with."""

    def clear(self) -> None:
        """Overwrite the contents with something no kernel computes."""

    def fill(self, contents: InputArray) -> None:
        """Set the contents, for an output that is read as well."""

    def contents(self) -> np.ndarray[Any, Any]:
        """The bytes as they are now, without what surrounds them."""

    def guards_hold(self) -> bool:
        """Whether what surrounds the output is as it was; true where nothing can surround it."""


class Bench(Protocol):
    """Loads libraries, holds tensors, and tells when the device has done what it was told."""

    @property
    def device_type(self) -> int:
        """The device's type by DLPack, as TVM's timer wants it."""

    @property
    def index(self) -> int:
        """Which of several devices it is."""

    @property
    def on_processor(self) -> bool:
        """Whether kernels run on a processor."""

    def load(self, library: int) -> Any:
        """The module of a library. ``library`` is a descriptor of its bytes; it stays the bench's from here on."""

    def place(self, array: InputArray, tensor: TensorArgument) -> Any:
        """``array`` in the device's memory."""

    def empty(self, tensor: TensorArgument) -> Any:
        """Memory of the device whose contents do not matter."""

    def output(self, tensor: TensorArgument) -> DeviceOutput:
        """Memory for an output."""

    def synchronize(self) -> None:
        """Wait until the device has done all it was told."""

    def use_threads(self, num_cores: int) -> None:
        """Have kernels on a processor take that many threads; no matter elsewhere."""

    def is_lost(self, error: BaseException) -> bool:
        """Whether ``error`` means that the device, or the way to it, is gone, and not that a kernel is at fault."""
