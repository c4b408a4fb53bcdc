"""Small Relax functions, and what TVM without schedules and the libraries compute for them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tunefarm.frontend.weights_file import read_weights, write_weights
from tunefarm.model.library.library import LIBRARIES, LibraryKernel, installed_libraries
from tunefarm_search.relax.onnx_graph import OnnxRegion, place_weights
from tunefarm_search.tvm.target import host_target
from tunefarm_search.tvm.tensor_intrinsics.dot_products import dot_product_of

Array = np.ndarray[Any, np.dtype[Any]]
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Case:
    """A function of Relax.

    ``build`` returns an expression of its parameters, which have the shapes and types ``inputs``. Integers are below
    ``limit``; ``steps`` is the difference that integer results may have.
    """

    name: str
    inputs: Sequence[tuple[tuple[int, ...], str]]
    build: Callable[..., Any]
    limit: int = 4
    lowest: int = 0
    steps: int = 0
    tolerance: float = 2e-5

    def function(self) -> Any:
        """The function, as ``main`` of a module."""
        parameters = [relax.Var(f"x{at}", relax.TensorType(*each)) for at, each in enumerate(self.inputs)]
        builder = relax.BlockBuilder()
        with builder.function("main", parameters):
            with builder.dataflow():
                result = builder.emit_output(builder.normalize(self.build(*parameters)))
            builder.emit_func_output(result)
        module = builder.get()
        return relax.transform.CanonicalizeBindings()(relax.transform.Normalize()(module))

    def arrays(self, seed: int = 0) -> list[Array]:
        """Random inputs."""
        generator = np.random.default_rng(seed)
        return [self._array(generator, *each) for each in self.inputs]

    def _array(self, generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
        if dtype == "bool":
            return generator.integers(0, 2, shape).astype(bool)
        if np.dtype(dtype).kind in "iu":
            return generator.integers(self.lowest, self.limit, shape).astype(dtype)
        return np.asarray(generator.normal(size=shape)).astype(dtype)


def bindings(module: Any) -> list[Any]:
    """Of its function ``main``."""
    return [binding for block in module["main"].body.blocks for binding in block.bindings]


def by_tvm(module: Any, arrays: Sequence[Array]) -> list[Array]:
    """The results of a build without schedules."""
    built = tvm.compile(
        relax.transform.LegalizeOps()(module), target=tvm.target.Target({"kind": "llvm", "num-cores": 1})
    )
    machine = relax.VirtualMachine(built, tvm.cpu())
    results = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    return [each.numpy() for each in ([results] if hasattr(results, "numpy") else results)]


def write_region(region: OnnxRegion, folder: Path) -> Path:
    """The ONNX file of a region in ``folder``, and the file of its weights if it has any."""
    path = folder / "region.onnx"
    if not region.weights:
        path.write_bytes(region.model)
        return path
    descriptor = os.open(folder / WEIGHTS, os.O_RDWR | os.O_CREAT, 0o644)
    write_weights(descriptor, region.weights)
    mapped = read_weights(descriptor)
    os.close(descriptor)
    # All arrays are views of one mapping, whose first byte is that of the file.
    start = min(array.ctypes.data for array in mapped.values()) - _header_bytes(folder / WEIGHTS)
    path.write_bytes(place_weights(region, {name: array.ctypes.data - start for name, array in mapped.items()}))
    return path


def _header_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def open_region(library: str, region: OnnxRegion, folder: Path) -> LibraryKernel:
    """Load a region."""
    return LIBRARIES[library].open(write_region(region, folder), 2, spins=False)


def by_library(kernel: LibraryKernel, arrays: Sequence[Array], region: OnnxRegion) -> list[Array]:
    """The results of a region."""
    outputs = [np.zeros(each.shape, each.dtype) for each in region.outputs]
    kernel.run(arrays, outputs)
    return outputs


def libraries_for(name: str) -> list[str]:
    """The installed libraries that compute a model or operator with this name right on this processor.

    Without dot products of 8-bit integers, OpenVINO adds pairs of products in 16 bits, which saturates.
    """
    has_wrong = ("int8" in name or "integers" in name) and dot_product_of(host_target(1)) is None
    return [each for each in installed_libraries() if not (has_wrong and each == "openvino")]
