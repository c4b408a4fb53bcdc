"""Writes small TFLite models with the object API of the flatbuffer schema."""

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "bool": schema.TensorType.BOOL,
}
SAME = schema.Padding.SAME
VALID = schema.Padding.VALID
NONE = schema.ActivationFunctionType.NONE
RELU = schema.ActivationFunctionType.RELU
RELU6 = schema.ActivationFunctionType.RELU6
TANH = schema.ActivationFunctionType.TANH


class ModelBuilder:
    """A model with one subgraph, whose operators are added in their order."""

    def __init__(self) -> None:
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.subgraphs, self.model.operatorCodes = [self.graph], []
        self.model.buffers = [schema.BufferT()]

    def tensor(self, shape: tuple[int, ...], dtype: str = "float32", name: str = "", scale: Any = None, zero: int = 0,
               axis: int = 0) -> int:  # fmt: skip
        """A tensor without contents; ``scale`` is a number, or one for each element of ``axis``."""
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = list(shape), TYPES[dtype], 0
        tensor.name = name or f"t{len(self.graph.tensors)}"
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = scales
            tensor.quantization.zeroPoint = np.full(len(scales), zero, np.int64)
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, shape: tuple[int, ...], dtype: str = "float32", **quantisation: Any) -> int:
        index = self.tensor(shape, dtype, name=f"input_{len(self.graph.inputs)}", **quantisation)
        self.graph.inputs.append(index)
        return index

    def weight(self, array: Any, name: str = "", **quantisation: Any) -> int:
        array = np.asarray(array)
        index = self.tensor(array.shape, str(array.dtype), name, **quantisation)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self.graph.tensors[index].buffer = len(self.model.buffers)
        self.model.buffers.append(buffer)
        return index

    def operator(self, name: str, inputs: list[int], outputs: list[int], options: Any = None, custom: str = "",
                 version: int = 1) -> None:  # fmt: skip
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = version
        code.customCode = custom or None
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptions, operator.builtinOptionsType = options, getattr(schema.BuiltinOptions, kind)
        self.graph.operators.append(operator)

    def content(self, *outputs: int) -> bytes:
        self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def save(self, folder: Path, *outputs: int) -> Path:
        path = folder / "model.tflite"
        path.write_bytes(self.content(*outputs))
        return path


def options(kind: str, **fields: Any) -> Any:
    """Options of an operator, such as ``Conv2DOptions``, with these fields."""
    made = getattr(schema, f"{kind}T")()
    for name, value in fields.items():
        assert hasattr(made, name), name
        setattr(made, name, value)
    return made
