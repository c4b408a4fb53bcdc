"""Converts a TFLite model to Relax."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax
from tvm.relax.frontend.tflite import tflite_frontend
from tvm.tirx import IntImm

from tunefarm.frontend.tflite.folding import folded
from tunefarm.frontend.tflite.operators import OwnConverters
from tunefarm.frontend.unsupported_operators import UnsupportedOperator, refuse_unsupported
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

MAX_ELEMENTS_INSIDE: Final = 8
"""Smaller arrays are constants of the module: axes, shapes and paddings."""
_REASON_CHARACTERS: Final = 200
# What converters raise for an operator that they cannot express: all kinds, since they check little themselves.
_REFUSALS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
_OF_DYNAMIC_RANGE: Final = frozenset({
    *("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "EMBEDDING_LOOKUP", "FULLY_CONNECTED", "TRANSPOSE_CONV"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
})  # fmt: skip
"""Operators whose weights may be quantised alone: they are computed in floating point."""


@dataclass(frozen=True)
class ConvertedModel:
    """A Relax module with one function ``main``.

    Attributes:
        module: TVM's ``IRModule``.
        weights: the contents of the parameters that follow the inputs, in their order.
        notes: dimensions that the file left open.
    """

    module: Any
    weights: tuple[npt.NDArray[np.generic], ...]
    notes: tuple[str, ...]


def convert_model(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> ConvertedModel:
    """Convert the first subgraph of a model.

    Args:
        model: as ``read_tflite`` gives it.
        shapes: of inputs, which have to be those of the file: its operators are written for them.

    Raises:
        BadInput: operators have no conversion, or ``shapes`` contradicts the file.
    """
    subgraph = _named(model)
    notes = _check_shapes(subgraph, shapes)
    builder = relax.BlockBuilder()
    table = _Weights()
    with builder.function("main"):
        with builder.dataflow():
            inputs = [_input(subgraph, int(index)) for index in subgraph.InputsAsNumpy()]
            for each in inputs:
                table.set_expr(each.name_hint if hasattr(each, "name_hint") else each.name, each)
            converter = _Converter(model, subgraph, table, builder)
            refused = converter.convert_all()
            result = builder.emit_output(relax.const(0.0) if refused else converter.results())
        builder.emit_func_output(result, [*inputs, *table.parameters])
    refuse_unsupported(refused)
    module = builder.get()
    return ConvertedModel(*_without_unused(module, len(inputs), table), notes)


def _without_unused(module: Any, inputs: int, table: "_Weights") -> tuple[Any, tuple[npt.NDArray[np.generic], ...]]:
    function = module["main"]
    free = set(relax.analysis.free_vars(function.body))
    pairs = zip(function.params[inputs:], table.arrays, strict=True)
    used = [(var, array) for var, array in pairs if var in free]
    parameters = [*function.params[:inputs], *(var for var, _ in used)]
    kept = relax.Function(parameters, function.body, function.ret_ty, function.is_pure)
    module["main"] = kept.with_attrs({"global_symbol": "main", "num_input": inputs})
    return module, tuple(array for _, array in used)


class _NamedTensor(tflite.Tensor):  # type: ignore[misc]
    """A tensor under a name that no other tensor has: TVM's converters tell tensors apart by their names."""

    unique = b""

    def Name(self) -> bytes:  # noqa: N802 - flatbuffers' spelling
        return self.unique


class _NamedSubgraph(tflite.SubGraph):  # type: ignore[misc]
    """A subgraph whose tensors have names of their own."""

    names: tuple[bytes, ...] = ()

    def Tensors(self, j: int) -> Any:  # noqa: N802 - flatbuffers' spelling
        plain = super().Tensors(j)
        tensor = _NamedTensor()
        tensor.Init(plain._tab.Bytes, plain._tab.Pos)  # noqa: SLF001 - flatbuffers has no other way to reread a table
        tensor.unique = self.names[j]
        return tensor


def _named(model: Any) -> Any:
    plain = model.Subgraphs(0)
    names = [plain.Tensors(index).Name() or b"" for index in range(plain.TensorsLength())]
    counts = Counter(names)
    unique = [name if name and counts[name] == 1 else name + f"#{index}".encode() for index, name in enumerate(names)]
    subgraph = _NamedSubgraph()
    subgraph.Init(plain._tab.Bytes, plain._tab.Pos)  # noqa: SLF001 - as above
    subgraph.names = tuple(unique)
    return subgraph


def _check_shapes(subgraph: Any, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    inputs = {_text(each): each for each in (subgraph.Tensors(int(i)) for i in subgraph.InputsAsNumpy())}
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        problem = f"The model has no input {', '.join(visible_line(name) for name in unknown)}."
        raise BadInput("shapes", problem, f"Its inputs are {', '.join(visible_line(name) for name in inputs)}.")
    notes = []
    for name, tensor in inputs.items():
        shape = _shape(tensor)
        if name in shapes and tuple(shapes[name]) != shape:
            problem = f"Input {visible_line(name)} has the shape {shape} in the file, not {tuple(shapes[name])}."
            fix = (
                "Convert the model to TFLite with the shape that it is to have: a TFLite file is written for one shape."
            )
            raise BadInput("shapes", problem, fix)
        open_axes: Any = np.flatnonzero(tensor.ShapeSignatureAsNumpy() < 0) if tensor.ShapeSignatureLength() else []
        notes += [
            f"Dimension {axis} of input {visible_line(name)} is {shape[axis]}, as in the file." for axis in open_axes
        ]
    return tuple(notes)


def _input(subgraph: Any, index: int) -> Any:
    tensor = subgraph.Tensors(index)
    dtype = tflite_frontend._decode_type(tensor.Type())  # noqa: SLF001 - TVM's names of TFLite's types
    if dtype in {"string", "complex64"}:
        raise BadInput(
            "model", f"Input {visible_line(_text(tensor))} has the type {dtype}.", "Convert it before the model."
        )
    return relax.Var(_text(tensor), relax.TensorType(_shape(tensor), dtype))


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()


def _text(tensor: Any) -> str:
    return str(tensor.Name().decode())


class _Weights(tflite_frontend.ExprTable):  # type: ignore[misc]
    """TVM's table of values, with weights as parameters instead of constants."""

    def __init__(self) -> None:
        super().__init__()
        self.parameters: list[Any] = []
        self.arrays: list[npt.NDArray[np.generic]] = []
        self._names: Counter[str] = Counter()

    def new_const(self, value: Any, shape: Any = None, dtype: str = "float32", source_name: Any = None) -> Any:
        """A constant of the module, or a parameter if it is large; TVM's converters give no ``shape``."""
        del shape
        array = np.asarray(value, dtype)
        if array.size <= MAX_ELEMENTS_INSIDE:
            return relax.const(array, dtype)
        name = source_name.decode() if isinstance(source_name, bytes) else source_name or "weight"
        self._names[name] += 1
        count = self._names[name]
        self.parameters.append(
            relax.Var(name if count == 1 else f"{name}#{count}", relax.TensorType(array.shape, dtype))
        )
        self.arrays.append(array)
        return self.parameters[-1]


class _Converter(OwnConverters):
    """TVM's converters, which go on after one that fails, so that all failures are named at once."""

    _is_in_floats = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sizes: dict[int, npt.NDArray[np.integer[Any]]] = {}

    def convert_all(self) -> list[UnsupportedOperator]:
        """Convert the operators in their order; those that could not be."""
        refused = []
        for number in range(self.subgraph.OperatorsLength()):
            operator = self.subgraph.Operators(number)
            try:
                self._convert(operator)
            except _REFUSALS as error:
                refused.append(self._unsupported(operator, number, str(error)))
                self._stand_in(operator)
        return refused

    def results(self) -> Any:
        """The outputs of the model: a tensor, or a tuple of several."""
        tensors = self.get_tensors(self.subgraph.OutputsAsNumpy())
        outputs = [self.get_tensor_expr(tensor) for tensor in tensors]
        return outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)

    def _convert(self, operator: Any) -> None:
        code = self.get_op_code_str(operator)
        if code not in self.convert_map:
            raise ValueError("")
        inputs, outputs = self.get_input_tensors(operator), self.get_output_tensors(operator)
        if self._is_size(code, operator, inputs, outputs):
            return
        quantised = [each for each in [*inputs, *outputs] if each.qnn_params is not None]
        of_values = any(each.qnn_params is not None for each in [*inputs[:1], *outputs])
        if quantised and not of_values:
            self._dequantise_weights(code, inputs)
        elif quantised:
            self._check_quantised(code, quantised)
        is_in_floats = of_values and code in _IN_FLOATS
        result = self._in_floats(operator, code) if is_in_floats else self.convert_map[code](op=operator)
        if result is None:
            return  # the converter took it as a constant
        result = self.bb.emit(self.bb.normalize(result))
        for index, output in enumerate(outputs):
            value = result if len(outputs) == 1 else self.bb.emit(relax.TupleGetItem(result, index))
            self.exp_tab.set_expr(_text(output.tensor), self._checked(value, output.tensor))

    def _is_size(self, code: str, operator: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Whether an operator gives a size that the file fixes. Operators that read it find it as a constant."""
        if code == "SHAPE":
            result = np.asarray(_shape(inputs[0].tensor))
        elif any(each.tensor_idx in self._sizes for each in inputs) and self._are_constants(inputs):
            found = folded(code, operator, [self.get_tensor_value(each) for each in inputs])
            if found is None:
                return False
            result = found
        else:
            return False
        (output,) = outputs
        dtype = self.get_tensor_type_str(output.tensor.Type())
        self._sizes[output.tensor_idx] = result.astype(dtype).reshape(_shape(output.tensor))
        return True

    def _are_constants(self, tensors: Sequence[Any]) -> bool:
        return all(
            each.tensor_idx in self._sizes or (each.tensor_idx >= 0 and each.buffer.DataLength() > 0)
            for each in tensors
        )

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> Any:
        """As TVM has it, and the sizes that the file fixes."""
        known = self._sizes.get(tensor_wrapper.tensor_idx)
        return super().get_tensor_value(tensor_wrapper, is_sparse) if known is None else known

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """As TVM has it; while an operator is converted in floats, no tensor is quantised."""
        tensors: list[Any] = super().get_tensors(tensors_idx_list)
        if self._is_in_floats:
            for each in tensors:
                each.qnn_params = None
        return tensors

    def _in_floats(self, operator: Any, code: str) -> Any:
        """An operator on quantised tensors, by the numbers that they stand for."""
        (output,), outside = self.get_output_tensors(operator), dict(self.exp_tab.exprs)
        for each in self.get_input_tensors(operator):
            if each.qnn_params is not None:
                self.exp_tab.set_expr(_text(each.tensor), self._float(each), force_override=True)
        self._is_in_floats = True
        try:
            result = self._emit(self.convert_map[code](op=operator))
        finally:
            self._is_in_floats = False
            self.exp_tab.exprs = outside
        return self.quantize(result, output) if output.qnn_params else result

    def _check_quantised(self, code: str, tensors: Sequence[Any]) -> None:
        if code in _OF_ONE_SCALE:
            if not all(self.has_same_qnn_params(tensors[0], each) for each in tensors[1:]):
                raise ValueError("its tensors have different scales")
        elif code not in self._SUPPORTED_QUANTIZED_OPS | _IN_FLOATS | _OF_INTEGERS:
            raise ValueError("it has a conversion for floating-point tensors only")

    def _dequantise_weights(self, code: str, tensors: Sequence[Any]) -> None:
        if code not in _OF_DYNAMIC_RANGE:
            raise ValueError("its weights are quantised alone: quantise the activations too, or neither")
        for each in tensors if code != "TRANSPOSE_CONV" else ():  # the converter of that one does so itself
            if each.tensor_idx >= 0 and each.qnn_params is not None and not self.has_expr(each.tensor_idx):
                weight = self.get_tensor_expr(each)
                self.exp_tab.set_expr(_text(each.tensor), self.bb.emit(self.dequantize(weight, each)))

    def _checked(self, value: Any, tensor: Any) -> Any:
        """A result in the type and shape that the file states, which TVM's converters do not always give."""
        dtype = self.get_tensor_type_str(tensor.Type())
        found = str(value.ty.dtype)
        if found != dtype:
            if np.dtype(found).kind not in "iu" or np.dtype(dtype).kind not in "iu":
                raise ValueError(f"its conversion has the type {found}, not {dtype}")
            value = self.bb.emit(relax.op.astype(value, dtype))
        sizes = value.ty.shape
        if tensor.ShapeLength() and isinstance(sizes, relax.ShapeExpr):
            found_sizes = tuple(int(size) if isinstance(size, IntImm) else -1 for size in sizes)
            if found_sizes != _shape(tensor):
                raise ValueError(f"its conversion has the shape {found_sizes}, not {_shape(tensor)}")
        return value

    def _stand_in(self, operator: Any) -> None:
        for output in self.get_output_tensors(operator):
            dtype = self.get_tensor_type_str(output.tensor.Type())
            variable = relax.Var(_text(output.tensor), relax.TensorType(_shape(output.tensor), dtype))
            self.exp_tab.set_expr(_text(output.tensor), variable)

    def _unsupported(self, operator: Any, number: int, reason: str) -> UnsupportedOperator:
        try:
            code = str(self.get_op_code_str(operator))
        except (ValueError, RuntimeError):
            code = self._custom_name(operator)
        inputs = [each.tensor for each in self.get_input_tensors(operator) if each.tensor_idx >= 0]
        shapes = ", ".join(f"{self.get_tensor_type_str(each.Type())}{list(_shape(each))}" for each in inputs)
        lines = [] if _advice(code) else reason.strip().splitlines()
        advice = f"{code}: {visible_line(lines[-1][:_REASON_CHARACTERS])}" if lines else _advice(code)
        return UnsupportedOperator(code, f"operator {number}", shapes, advice)

    def _custom_name(self, operator: Any) -> str:
        code = self.model.OperatorCodes(operator.OpcodeIndex())
        custom = code.CustomCode()
        return f"CUSTOM {visible_line(custom.decode(errors='replace'))}" if custom else f"code {code.BuiltinCode()}"


_OF_ONE_SCALE: Final = frozenset(
    {
        *("ARG_MAX", "ARG_MIN", "BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE", "DYNAMIC_UPDATE_SLICE", "EXPAND_DIMS", "GATHER"),
        *("GATHER_ND", "MIRROR_PAD", "PACK", "PAD", "PADV2", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SELECT"),
        *("SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE"),
        *("TILE", "TOPK_V2", "TRANSPOSE", "UNPACK"),
    }
)
"""Operators that move or compare elements, which may be quantised if all are in the same way."""
_IN_FLOATS: Final = frozenset({"BATCH_MATMUL", "ELU", "GELU", "L2_NORMALIZATION", "PRELU"})
"""Operators whose quantised operands are computed as floats."""
_OF_INTEGERS: Final = frozenset({"CAST"})
"""Operators that take quantised elements for integers."""


def _advice(code: str) -> str:
    if code.startswith(("CUSTOM", "FLEX")):
        return "Convert the model with TFLite's built-in operators only, without custom and Flex operators."
    return ""
