"""Converters of TFLite operators that TVM converts wrongly, refuses, or converts to functions that no runtime has."""

import math
from typing import Any, Final

import numpy as np
import tflite
from tvm import relax
from tvm.relax.frontend.tflite import tflite_frontend

from tunefarm.frontend.expressions.along_axis import pieces

_MAX_STEPS: Final = 256
"""Of a recurrent layer, which is unrolled."""
_GATES: Final = 4
_NOT_CONVERTED: Final = (9, 10, 11, 16, 17, 20, 21, 22, 23)
"""Inputs of an LSTM: peepholes, a projection, and norms."""


class OwnConverters(tflite_frontend.OperatorConverter):  # type: ignore[misc]
    """TVM's table of converters, with ours in place of some."""

    def convert_gather_nd(self, op: Any) -> Any:
        """TVM's converter transposes the positions, which Relax expects as they are."""
        data, positions = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))
        return relax.op.gather_nd(data, self._emit(relax.op.astype(positions, "int64")))

    def convert_scatter_nd(self, op: Any) -> Any:
        """As ``convert_gather_nd``; values of one position are added."""
        given = self.get_input_tensors(op)
        positions, values = (self.get_tensor_expr(each) for each in given[:2])
        shape = tuple(int(extent) for extent in self.get_tensor_value(given[2]))
        nothing = self._emit(relax.op.zeros(shape, str(values.ty.dtype)))
        return relax.op.scatter_nd(nothing, self._emit(relax.op.astype(positions, "int64")), values, "add")

    def convert_expand_dims(self, op: Any) -> Any:
        """TVM's converter calls the operator with a number of axes, which it does not take."""
        given = self.get_input_tensors(op)
        return relax.op.expand_dims(self.get_tensor_expr(given[0]), int(np.ravel(self.get_tensor_value(given[1]))[0]))

    def convert_softmax(self, op: Any) -> Any:
        """With ``beta``, which TVM's converter ignores."""
        options = _options(op, tflite.SoftmaxOptions)
        if options is None or options.Beta() == 1:
            return super().convert_softmax(op)
        (given,), (result,) = self.get_input_tensors(op), self.get_output_tensors(op)
        data = self._float(given)
        factor = relax.const(options.Beta(), str(data.ty.dtype))
        shares = relax.op.nn.softmax(self._emit(relax.op.multiply(data, factor)), -1)
        return self.quantize(shares, result) if result.qnn_params else shares

    def convert_gelu(self, op: Any) -> Any:
        """With ``approximate``, which TVM's converter ignores."""
        options = _options(op, tflite.GeluOptions)
        if options is None or not options.Approximate() or self.is_quantized(op):
            return super().convert_gelu(op)
        return relax.op.nn.gelu_tanh(self.get_tensor_expr(self.get_input_tensors(op)[0]))

    def convert_fully_connected(self, op: Any) -> Any:
        """Inputs of more axes are rows one after another, unless the operator keeps their axes."""
        options, given = _options(op, tflite.FullyConnectedOptions), self.get_input_tensors(op)
        data, width = self.get_tensor_expr(given[0]), int(self.get_tensor_shape(given[1])[-1])
        shape = [int(extent) for extent in data.ty.shape]
        if (options is not None and options.KeepNumDims()) or shape == [shape[0], width]:
            return super().convert_fully_connected(op)
        name = str(given[0].tensor.Name().decode())
        rows = self._emit(relax.op.reshape(data, (math.prod(shape) // width, width)))
        self.exp_tab.set_expr(name, rows, force_override=True)
        try:
            return super().convert_fully_connected(op)
        finally:
            self.exp_tab.set_expr(name, data, force_override=True)

    def convert_batch_matmul(self, op: Any) -> Any:
        """With constant operands, and with fewer matrices on either side; TVM's converter takes neither."""
        if self.is_quantized(op):
            return super().convert_batch_matmul(op)
        options = _options(op, tflite.BatchMatMulOptions)
        left, right = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))
        left = self._swapped(left) if options is not None and options.AdjX() else left
        right = self._swapped(right) if options is not None and options.AdjY() else right
        return relax.op.matmul(left, right)

    def convert_space_to_batch_nd(self, op: Any) -> Any:
        """TVM's converter calls a function of its compiler."""
        given = self.get_input_tensors(op)
        blocks, pads = (self.get_tensor_value(each) for each in given[1:3])
        count = len(blocks)
        data = self.get_tensor_expr(given[0])
        around = [(0, 0), *((int(low), int(high)) for low, high in pads)]
        around += [(0, 0)] * (len(data.ty.shape) - len(around))
        data = self._emit(relax.op.nn.pad(data, [each for pair in around for each in pair]))
        batch, *extents = (int(extent) for extent in data.ty.shape)
        rest = extents[count:]
        split = [each for extent, block in zip(extents, blocks, strict=False) for each in (extent // block, block)]
        parts = self._emit(relax.op.reshape(data, [batch, *map(int, split), *rest]))
        within, outside = [2 * axis + 2 for axis in range(count)], [2 * axis + 1 for axis in range(count)]
        last = range(2 * count + 1, 2 * count + 1 + len(rest))
        moved = self._emit(relax.op.permute_dims(parts, [*within, 0, *outside, *last]))
        return relax.op.reshape(moved, [batch * math.prod(map(int, blocks)), *map(int, split[::2]), *rest])

    def convert_batch_to_space_nd(self, op: Any) -> Any:
        """TVM's converter calls a function of its compiler."""
        given = self.get_input_tensors(op)
        blocks, crops = ([*map(int, np.ravel(self.get_tensor_value(each)))] for each in given[1:3])
        count, data = len(blocks), self.get_tensor_expr(given[0])
        batch, *extents = (int(extent) for extent in data.ty.shape)
        kept, rest = batch // math.prod(blocks), extents[count:]
        parts = self._emit(relax.op.reshape(data, [*blocks, kept, *extents]))
        pairs = [each for axis in range(count) for each in (count + 1 + axis, axis)]
        last = range(2 * count + 1, 2 * count + 1 + len(rest))
        moved = self._emit(relax.op.permute_dims(parts, [count, *pairs, *last]))
        whole = [extent * block for extent, block in zip(extents, blocks, strict=False)]
        joined = self._emit(relax.op.reshape(moved, [kept, *whole, *rest]))
        axes = list(range(1, count + 1))
        ends = [extent - high for extent, high in zip(whole, crops[1::2], strict=True)]
        return relax.op.strided_slice(joined, axes, crops[::2], ends)

    def convert_sparse_to_dense(self, op: Any) -> Any:
        """TVM's converter calls a function of its compiler."""
        del op
        raise ValueError("it has no conversion: use SCATTER_ND")

    def convert_transpose_conv(self, op: Any) -> Any:
        """With the channels first, as the operator is lowered, with a bias and an activation."""
        options, given = _options(op, tflite.TransposeConvOptions), self.get_input_tensors(op)
        if options is None:
            raise ValueError("the file has no options for it")
        wanted = [int(extent) for extent in self.get_tensor_value(given[0])][1:3]
        weights, data = (self._float(each) for each in given[1:3])
        kernel = [int(extent) for extent in weights.ty.shape][1:3]
        strides = [options.StrideH(), options.StrideW()]
        sizes = [int(extent) for extent in data.ty.shape][1:3]
        totals = [
            (size - 1) * stride + reach - extent
            for size, stride, reach, extent in zip(sizes, strides, kernel, wanted, strict=True)
        ]
        before = [max(total, 0) // 2 for total in totals]
        after = [max(total, 0) - low for total, low in zip(totals, before, strict=True)]
        result = relax.op.nn.conv2d_transpose(
            self._emit(relax.op.permute_dims(data, [0, 3, 1, 2])),
            self._emit(relax.op.permute_dims(weights, [3, 0, 1, 2])),
            strides=strides,
            padding=[*before, *after],
            output_padding=[max(-total, 0) for total in totals],
            data_layout="NCHW",
            kernel_layout="IOHW",
        )
        result = self._emit(relax.op.permute_dims(self._emit(result), [0, 2, 3, 1]))
        if len(given) > 3 and given[3].tensor_idx != -1:
            result = self._emit(relax.op.add(result, self._float(given[3])))
        result = self.convert_fused_activation_function(result, options.FusedActivationFunction())
        (output,) = self.get_output_tensors(op)
        return self.quantize(result, output) if output.qnn_params else result

    def convert_unidirectional_sequence_lstm(self, op: Any) -> Any:
        """With four gates, as Keras has them; TVM's converter takes three."""
        given = self.get_input_tensors(op)
        if given[1].tensor_idx == -1:
            return super().convert_unidirectional_sequence_lstm(op)
        options = _options(op, tflite.UnidirectionalSequenceLSTMOptions)
        if self.is_quantized(op) or any(given[each].tensor_idx != -1 for each in _NOT_CONVERTED if each < len(given)):
            raise ValueError("it is quantized, or has peepholes, a projection or norms")
        data = self.get_tensor_expr(given[0])
        if not options.TimeMajor():
            data = self._emit(relax.op.permute_dims(data, [1, 0, 2]))
        steps, batch, width = (int(extent) for extent in data.ty.shape)
        if steps > _MAX_STEPS:
            raise ValueError(f"a sequence of {steps} steps is longer than {_MAX_STEPS}")
        weights, recurrence = (self._swapped(self._of_gates(given, first)) for first in (1, 5))
        rows = self._emit(relax.op.reshape(data, (steps * batch, width)))
        sums = self._emit(relax.op.add(self._emit(relax.op.matmul(rows, weights)), self._of_gates(given, 12)))
        hidden, cell = (self._state(given[each], batch, int(recurrence.ty.shape[0])) for each in (18, 19))
        outputs = []
        for of_input in pieces(sums, steps, 0, self._emit):
            total = self._emit(relax.op.add(of_input, self._emit(relax.op.matmul(hidden, recurrence))))
            hidden, cell = self._next_state(pieces(total, _GATES, 1, self._emit), cell, options)
            outputs.append(hidden)
        return relax.op.stack(outputs, axis=0 if options.TimeMajor() else 1)

    def _next_state(self, gates: list[Any], cell: Any, options: Any) -> tuple[Any, Any]:
        """The hidden state and the cell after a step, from the sums of its input, forget, cell and output gates."""
        activate, function = self.convert_fused_activation_function, options.FusedActivationFunction()
        entering, kept, shown = (self._emit(relax.op.sigmoid(gates[each])) for each in (0, 1, 3))
        added = self._emit(relax.op.multiply(entering, self._emit(activate(gates[2], function))))
        cell = self._emit(relax.op.add(self._emit(relax.op.multiply(kept, cell)), added))
        if options.CellClip() > 0:
            cell = self._emit(relax.op.clip(cell, -options.CellClip(), options.CellClip()))
        return self._emit(relax.op.multiply(shown, self._emit(activate(cell, function)))), cell

    def _of_gates(self, given: list[Any], first: int) -> Any:
        """The weights or biases of the four gates from input ``first`` on, one after another."""
        return self._emit(relax.op.concat([self.get_tensor_expr(each) for each in given[first : first + _GATES]], 0))

    def _state(self, tensor: Any, batch: int, width: int) -> Any:
        """The state before the first step: zeros, where no operator computes it."""
        if self.has_expr(tensor.tensor_idx):
            return self.get_expr(tensor.tensor_idx)
        return relax.const(np.zeros((batch, width), np.float32))

    def _float(self, tensor: Any) -> Any:
        """The numbers that a tensor stands for."""
        value = self.get_tensor_expr(tensor)
        return self._emit(self.dequantize(value, tensor)) if tensor.qnn_params else value

    def _swapped(self, matrices: Any) -> Any:
        rank = len(matrices.ty.shape)
        return self._emit(relax.op.permute_dims(matrices, [*range(rank - 2), rank - 1, rank - 2]))

    def _emit(self, value: Any) -> Any:
        return self.bb.emit(self.bb.normalize(value))


def _options(operator: Any, kind: Any) -> Any:
    """The options of an operator; None if the file has none."""
    table = operator.BuiltinOptions()
    if table is None:
        return None
    options = kind()
    options.Init(table.Bytes, table.Pos)
    return options
