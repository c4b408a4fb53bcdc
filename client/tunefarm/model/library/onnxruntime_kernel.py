"""Runs models by onnxruntime's provider for CPUs."""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tunefarm.model.library.arrays import Array, Port, failures_of, one_line, run_arrays
from tunefarm.startup.silent_import import import_onnxruntime
from tunefarm_schemas.bad_input import BadInput

_ERRORS: Final = 3
"""The level of messages of onnxruntime."""
_TYPES: Final = {"float": "float32", "double": "float64"}
"""NumPy's names of types that onnxruntime calls otherwise."""


class OnnxRuntime:
    """The library onnxruntime."""

    name = "onnxruntime"

    def requirement(self) -> str:
        """See ``KernelLibrary``."""
        return f"{self.name}=={importlib.metadata.version(self.name)}"

    def open(self, model: Path, threads: int, *, spins: bool) -> "OnnxRuntimeKernel":
        """See ``KernelLibrary``."""
        try:
            onnxruntime = import_onnxruntime()
        except ImportError as error:
            fix = "Install it: pip install 'tunefarm[libraries]'."
            raise BadInput("library", "onnxruntime is not installed.", fix) from error
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = _ERRORS
        # Without VNNI, it adds pairs of products of 8-bit integers in 16 bits otherwise, which saturates.
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spins)))
        try:
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            problem = f"onnxruntime refuses {model.name}: {one_line(error)}"
            raise BadInput("library", problem, "Compile the model without this library.") from error
        return OnnxRuntimeKernel(session)


class OnnxRuntimeKernel:
    """A session of onnxruntime, whose inputs and outputs are bound to the caller's memory."""

    def __init__(self, session: Any) -> None:
        """``session`` is an ``InferenceSession``."""
        self._session = session
        self.inputs = tuple(_port(each) for each in session.get_inputs())
        self.outputs = tuple(_port(each) for each in session.get_outputs())
        self._binding = session.io_binding()
        # Bindings hold addresses, which are read in a call alone: one may be kept after its memory is gone.
        self._bound: tuple[list[int], list[int]] = ([0] * len(self.inputs), [0] * len(self.outputs))

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """See ``LibraryKernel``."""
        run_arrays(self.run_at, (self.inputs, self.outputs), inputs, outputs)

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """See ``LibraryKernel``."""
        with failures_of("onnxruntime"):
            self._bind(inputs, self.inputs, self._bound[0], self._binding.bind_input)
            self._bind(outputs, self.outputs, self._bound[1], self._binding.bind_output)
            self._session.run_with_iobinding(self._binding)

    def _bind(self, addresses: Sequence[int], ports: Sequence[Port], bound: list[int], bind: Any) -> None:
        for at, (address, port) in enumerate(zip(addresses, ports, strict=True)):
            if bound[at] != address:
                bind(port.name, "cpu", 0, port.dtype.type, port.shape, address)
                bound[at] = address


def _port(described: Any) -> Port:
    kind = described.type.removeprefix("tensor(").removesuffix(")")
    return Port(described.name, tuple(described.shape), np.dtype(_TYPES.get(kind, kind)))
