"""One quantized operator as a Relax module, and what it computes in integers of any size."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from tunefarm_search.relax.constants import constant_of

Array = Any
RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


@dataclass(frozen=True)
class QuantizedLayer:
    """A convolution (rank 1 or 2) or matrix product (rank 0) of quantized numbers.

    ``output`` is the type that the result is quantized to; None leaves floats.
    """

    rank: int
    channels: tuple[int, int]
    channels_last: bool = False
    size: int = 7
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    padding: tuple[int, int] = (0, 0)
    activation: str = "int8"
    zero_point: int = 0
    weight: str = "int8"
    weight_zero_point: int = 0
    per_channel: bool = False
    bias: bool = True
    rectifier: bool = False
    output: str | None = "int8"
    output_zero_point: int = 3
    seed: int = 0

    @property
    def input_shape(self) -> tuple[int, ...]:
        spatial = (self.size,) * self.rank
        if self.rank == 0:
            return (self.size, self.channels[0])
        return (1, *spatial, self.channels[0]) if self.channels_last else (1, self.channels[0], *spatial)

    @property
    def weights(self) -> Array:
        """[output channels, *kernel, input channels]."""
        shape = (self.channels[1], *(self.kernel,) * self.rank, self.channels[0])
        low, high = RANGES[self.weight]
        return self._random(1).integers(low, high + 1, shape).astype(self.weight)

    @property
    def weight_scales(self) -> Array:
        scales = self._random(2).uniform(0.001, 0.02, self.channels[1]).astype("float32")
        return scales if self.per_channel else scales[:1]

    @property
    def input_scale(self) -> Array:
        return np.float32(self._random(3).uniform(0.01, 0.1))

    @property
    def biases(self) -> Array:
        return self._random(4).uniform(-2, 2, self.channels[1]).astype("float32") * np.float32(self.bias)

    @property
    def output_scale(self) -> Array:
        return np.float32(self.input_scale * self.weight_scales.max() * 40 * np.sqrt(self.weights[0].size))

    def inputs(self) -> Array:
        low, high = RANGES[self.activation]
        return self._random(5).integers(low, high + 1, self.input_shape).astype(self.activation)

    def module(self) -> Any:
        """From integers to integers or floats, all parameters as constants."""
        return self._module(None)

    def module_with_parameter(self) -> Any:
        """The same with the weights as a parameter, in the order of the constant."""
        return self._module(relax.Var("w", relax.TensorType(self.stored_weights.shape, self.weight)))

    @property
    def stored_weights(self) -> Array:
        return np.moveaxis(self.weights, -1, 1)

    def _module(self, parameter: Any) -> Any:
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType(self.input_shape, self.activation))
        weights = constant_of(self.stored_weights) if parameter is None else parameter
        parameters = [x] if parameter is None else [x, parameter]
        with builder.function("main", parameters, attrs={"num_input": 1}):
            with builder.dataflow():
                output = builder.emit_output(self._result(builder, x, weights))
            builder.emit_func_output(output)
        return builder.get()

    def _result(self, builder: Any, x: Any, weights: Any) -> Any:
        point = self._point(self.zero_point, self.activation)
        data = builder.emit(relax.op.dequantize(x, constant_of(self.input_scale), point))
        result = builder.emit(self._product(builder, data, weights))
        if self.bias:
            result = builder.emit(relax.op.add(result, constant_of(self._by_channel(self.biases))))
        if self.rectifier:
            result = builder.emit(relax.op.nn.relu(result))
        if self.output is None:
            return result
        point = self._point(self.output_zero_point, self.output)
        return relax.op.quantize(result, constant_of(self.output_scale), point, -1, self.output)

    def expected(self, x: Array) -> Array:
        """In float64 from exact sums; not rounded."""
        sums = self._sums(x.astype(np.int64) - self.zero_point)
        scales = self.weight_scales.astype("float64") * float(self.input_scale)
        result = sums * scales + self.biases.astype("float64")
        result = np.maximum(result, 0) if self.rectifier else result
        if self.output is not None:
            low, high = RANGES[self.output]
            result = np.clip(result / float(self.output_scale) + self.output_zero_point, low, high)
        return np.moveaxis(result, -1, 1) if self.rank and not self.channels_last else result

    def _product(self, builder: Any, data: Any, weights: Any) -> Any:
        scales = self.weight_scales
        point = np.full(scales.shape, self.weight_zero_point, self.weight)
        if not self.per_channel:
            scales, point = scales.reshape(()), point.reshape(())
        if self.rank == 0:
            kernel = relax.op.dequantize(weights, constant_of(scales), constant_of(point), 0)
            return relax.op.matmul(data, builder.emit(relax.op.permute_dims(builder.emit(kernel))))
        layout = "NWC" if self.channels_last and self.rank == 1 else "NHWC" if self.channels_last else "NCHW"
        layout = "NCW" if self.rank == 1 and not self.channels_last else layout
        kernel = builder.emit(relax.op.dequantize(weights, constant_of(scales), constant_of(point), 0))
        before, after = self.padding
        window = (self.stride, (before,) * self.rank + (after,) * self.rank, self.dilation)
        if self.rank == 1:
            return relax.op.nn.conv1d(data, kernel, *window, data_layout=layout, kernel_layout="OIW")
        return relax.op.nn.conv2d(data, kernel, *window, data_layout=layout, kernel_layout="OIHW")

    def _sums(self, x: Array) -> Array:
        """Exact, with the channels last; padding is zero."""
        weights = self.weights.astype(np.int64) - self.weight_zero_point
        if self.rank == 0:
            return x @ weights.T
        x = x if self.channels_last else np.moveaxis(x, 1, -1)
        x = np.pad(x, ((0, 0), *((self.padding,) * self.rank), (0, 0)))
        span = self.dilation * (self.kernel - 1) + 1
        extent = (x.shape[1] - span) // self.stride + 1
        sums = np.zeros((1, *(extent,) * self.rank, self.channels[1]), np.int64)
        for step in np.ndindex(*weights.shape[1:-1]):
            moved = [slice(at * self.dilation, at * self.dilation + extent * self.stride, self.stride) for at in step]
            part = x[(slice(None), *(slice(each.start, each.stop) for each in moved))]
            part = part[(slice(None), *(slice(None, None, self.stride),) * self.rank)]
            sums += part @ weights[(slice(None), *step)].T
        return sums

    def _by_channel(self, values: Array) -> Array:
        return values.reshape(-1, *(1,) * self.rank) if self.rank and not self.channels_last else values

    @staticmethod
    def _point(value: int, dtype: str) -> Any:
        return constant_of(np.asarray(value, dtype))

    def _random(self, use: int) -> Any:
        return np.random.default_rng([self.seed, use])
