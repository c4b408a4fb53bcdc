"""The interface of the libraries that run parts of a model, and which of them are installed."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from tunefarm.model.library.arrays import Array, Port
from tunefarm.model.library.onnxruntime_kernel import OnnxRuntime
from tunefarm.model.library.openvino_kernel import OpenVino


class LibraryKernel(Protocol):
    """A part of a model that a library has loaded. Not for several threads at once."""

    @property
    def inputs(self) -> Sequence[Port]:
        """Name, shape and element type of each input."""
        ...

    @property
    def outputs(self) -> Sequence[Port]:
        """Name, shape and element type of each output."""
        ...

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute NumPy arrays from NumPy arrays, and write the results into ``outputs``.

        Arrays that are contiguous and aligned to their elements are not copied.

        Raises:
            ValueError: an array has another shape or element type than the model's.
            RuntimeError: the library failed.
        """
        ...

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """As ``run``, for contiguous arrays of the right size at these addresses."""
        ...


class KernelLibrary(Protocol):
    """A library that runs ONNX models."""

    @property
    def name(self) -> str:
        """Of its package, such as ``onnxruntime``."""
        ...

    def requirement(self) -> str:
        """The installed version as pip's requirement, such as ``onnxruntime==1.22.0``; the library is not imported.

        Raises:
            importlib.metadata.PackageNotFoundError: it is not installed.
        """
        ...

    def open(self, model: Path, threads: int, *, spins: bool) -> LibraryKernel:
        """Load an ONNX file, with the external data that it names in its folder.

        Args:
            model: the file.
            threads: that compute, the caller's among them.
            spins: whether threads wait for the next operator by spinning. This saves microseconds for each operator,
                and takes the cores from what runs between two calls.

        Raises:
            BadInput: the library is not installed, or refuses the model.
        """
        ...


LIBRARIES: Final[Mapping[str, KernelLibrary]] = MappingProxyType(
    {library.name: library for library in (OnnxRuntime(), OpenVino())}
)
"""By name."""


def installed_libraries() -> tuple[str, ...]:
    """The names of the libraries that are installed."""
    return tuple(name for name, library in LIBRARIES.items() if _is_installed(library))


def _is_installed(library: KernelLibrary) -> bool:
    try:
        library.requirement()
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
