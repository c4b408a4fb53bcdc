"""Runs models by OpenVINO's plugin for CPUs."""

import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tunefarm.model.library.arrays import Array, Port, failures_of, one_line, run_arrays, view_at
from tunefarm.startup.silent_import import import_openvino
from tunefarm_schemas.bad_input import BadInput

_MAX_TENSORS: Final = 64
"""Tensors that are kept for the addresses of one input or output."""


class OpenVino:
    """The library OpenVINO. It has no choice of how its threads wait."""

    name = "openvino"

    def requirement(self) -> str:
        """See ``KernelLibrary``."""
        return f"{self.name}=={importlib.metadata.version(self.name)}"

    def open(self, model: Path, threads: int, *, spins: bool) -> "OpenVinoKernel":  # noqa: ARG002 - oneTBB decides
        """See ``KernelLibrary``."""
        try:
            openvino = import_openvino()
        except ImportError as error:
            fix = "Install it: pip install 'tunefarm[libraries]'."
            raise BadInput("library", "openvino is not installed.", fix) from error
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,
        }
        try:
            compiled = openvino.Core().compile_model(str(model), "CPU", settings)
        except Exception as error:
            problem = f"OpenVINO refuses {model.name}: {one_line(error)}"
            raise BadInput("library", problem, "Compile the model without this library.") from error
        return OpenVinoKernel(compiled)


class OpenVinoKernel:
    """An inference request of OpenVINO, on tensors over the caller's memory."""

    def __init__(self, compiled: Any) -> None:
        """``compiled`` is a ``CompiledModel``."""
        self._request = compiled.create_infer_request()
        self.inputs = tuple(_port(each) for each in compiled.inputs)
        self.outputs = tuple(_port(each) for each in compiled.outputs)
        # Tensors hold addresses, which are read in a call alone: one may be kept after its memory is gone.
        self._input_tensors = tuple(_TensorCache(port) for port in self.inputs)
        self._output_tensors = tuple(_TensorCache(port) for port in self.outputs)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """See ``LibraryKernel``."""
        run_arrays(self.run_at, (self.inputs, self.outputs), inputs, outputs)

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """See ``LibraryKernel``."""
        with failures_of("OpenVINO"):
            _bind(inputs, self._input_tensors, self._request.set_input_tensor)
            _bind(outputs, self._output_tensors, self._request.set_output_tensor)
            self._request.infer()


class _TensorCache:
    """OpenVINO's tensors over addresses of one input or output."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._tensors: dict[int, Any] = {}
        self.bound = 0

    def at(self, address: int) -> Any:
        """The tensor over the memory at an address."""
        found = self._tensors.get(address)
        if found is None:
            if len(self._tensors) >= _MAX_TENSORS:
                self._tensors.clear()
            found = import_openvino().Tensor(view_at(self._port, address), shared_memory=True)
            self._tensors[address] = found
        return found


def _bind(addresses: Sequence[int], caches: Sequence[_TensorCache], bind: Callable[[int, Any], None]) -> None:
    for at, (address, cache) in enumerate(zip(addresses, caches, strict=True)):
        if cache.bound != address:
            bind(at, cache.at(address))
            cache.bound = address


def _port(described: Any) -> Port:
    return Port(described.any_name, tuple(described.shape), described.element_type.to_dtype())
