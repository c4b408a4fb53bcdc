"""Converters of TFLite operators that TVM converts wrongly, refuses, or converts to functions that no runtime has."""

import math
from typing import Any, Final

import numpy as np
import tflite
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import get_pad_value, get_scalar_from_constant

from tunefarm.frontend.expressions.along_axis import pieces
from tunefarm.frontend.tflite.detection import Detection, DetectionOptions
from tunefarm.frontend.tflite.movement import MovementConverters, options_of

_MAX_STEPS: Final = 256
"""Of a recurrent layer, which is unrolled."""
_GATES: Final = 4
_NOT_CONVERTED: Final = (9, 10, 11, 16, 17, 20, 21, 22, 23)
"""Inputs of an LSTM: peepholes, a projection, and norms."""


class OwnConverters(MovementConverters):
    """TVM's table of converters, with ours in place of some."""

    def convert_cumsum(self, op: Any) -> Any:
        """From the end, too."""
        options, (data, axis) = options_of(op, tflite.CumsumOptions), self.get_input_tensors(op)
        value, along = self.get_tensor_expr(data), self._integers(axis)[0]
        if options.Reverse():
            value = self._emit(relax.op.flip(value, along))
        total = self._emit(relax.op.cumsum(value, along, exclusive=options.Exclusive()))
        return self._emit(relax.op.flip(total, along)) if options.Reverse() else total

    def convert_softmax(self, op: Any) -> Any:
        """With ``beta``, which TVM's converter ignores."""
        options = options_of(op, tflite.SoftmaxOptions)
        if options is None or options.Beta() == 1:
            return super().convert_softmax(op)
        (given,), (result,) = self.get_input_tensors(op), self.get_output_tensors(op)
        data = self._float(given)
        factor = relax.const(options.Beta(), str(data.ty.dtype))
        shares = relax.op.nn.softmax(self._emit(relax.op.multiply(data, factor)), -1)
        return self.quantize(shares, result) if result.qnn_params else shares

    def convert_elu(self, op: Any) -> Any:
        """In the type of the operand, which may be other than that of the tensor."""
        data = self.get_tensor_expr(self.get_input_tensors(op)[0])
        zero, one = (relax.const(each, str(data.ty.dtype)) for each in (0.0, 1.0))
        below = self._emit(relax.op.exp(self._emit(relax.op.minimum(data, zero))))
        return relax.op.add(self._emit(relax.op.nn.relu(data)), self._emit(relax.op.subtract(below, one)))

    def convert_gelu(self, op: Any) -> Any:
        """With ``approximate``, which TVM's converter ignores."""
        options = options_of(op, tflite.GeluOptions)
        is_tanh = options is not None and options.Approximate()
        data = self.get_tensor_expr(self.get_input_tensors(op)[0])
        return relax.op.nn.gelu_tanh(data) if is_tanh else relax.op.nn.gelu(data)

    def convert_dequantize(self, op: Any) -> Any:
        """Of a constant, too."""
        (given,) = self.get_input_tensors(op)
        return super().convert_dequantize(op) if given.qnn_params is None else self._float(given)

    def convert_pool2d(self, op: Any, pool_type: str) -> Any:
        """Means of quantized elements are rounded, ties away from zero; TVM's converter cuts them off."""
        (given,), (result,) = self.get_input_tensors(op), self.get_output_tensors(op)
        if pool_type != "average" or given.qnn_params is None:
            return super().convert_pool2d(op, pool_type)
        if not self.has_same_qnn_params(given, result):
            raise ValueError("its tensors have different scales")
        options = options_of(op, tflite.Pool2DOptions)
        window, strides = (options.FilterHeight(), options.FilterWidth()), (options.StrideH(), options.StrideW())
        data = self._emit(relax.op.astype(self.get_tensor_expr(given), "float32"))
        sizes = [int(extent) for extent in data.ty.shape][1:3]
        pads = [(0, 0)] * 2
        if options.Padding() == tflite.Padding.SAME:
            pads = [get_pad_value(*each) for each in zip(sizes, window, strides, strict=True)]
        padding = [low for low, _ in pads] + [high for _, high in pads]
        mean = self._emit(relax.op.nn.avg_pool2d(data, window, strides, padding, layout="NHWC"))
        half = relax.const(0.5, "float32")
        below = self._emit(relax.op.ceil(self._emit(relax.op.subtract(mean, half))))
        above = self._emit(relax.op.floor(self._emit(relax.op.add(mean, half))))
        is_below = self._emit(relax.op.less(mean, relax.const(0, "float32")))
        dtype = self.get_tensor_type_str(result.tensor.Type())
        scale, zero_point = (get_scalar_from_constant(result.qnn_params[name]) for name in ("scale", "zero_point"))
        return self.convert_qnn_fused_activation_function(
            expr=self._emit(relax.op.astype(self._emit(relax.op.where(is_below, below, above)), dtype)),
            fused_activation_fn=options.FusedActivationFunction(),
            scale=scale,
            zero_point=zero_point,
            dtype=dtype,
        )

    def convert_fully_connected(self, op: Any) -> Any:
        """Inputs of more axes are rows one after another, unless the operator keeps their axes."""
        options, given = options_of(op, tflite.FullyConnectedOptions), self.get_input_tensors(op)
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
        options = options_of(op, tflite.BatchMatMulOptions)
        left, right = (self.get_tensor_expr(each) for each in self.get_input_tensors(op))
        left = self._swapped(left) if options is not None and options.AdjX() else left
        right = self._swapped(right) if options is not None and options.AdjY() else right
        return relax.op.matmul(left, right)

    def convert_detection_postprocess(self, op: Any) -> Any:
        """Without a sort, which TVM's converter leaves to a function of its runtime."""
        options = DetectionOptions.read(op.CustomOptionsAsNumpy().tobytes() if op.CustomOptionsLength() else b"")
        operands = [self._float(each) for each in self.get_input_tensors(op)]
        return relax.Tuple(Detection(options, self._emit).results(*operands))

    def convert_transpose_conv(self, op: Any) -> Any:
        """With the channels first, as the operator is lowered, with a bias and an activation."""
        options, given = options_of(op, tflite.TransposeConvOptions), self.get_input_tensors(op)
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
        options = options_of(op, tflite.UnidirectionalSequenceLSTMOptions)
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
