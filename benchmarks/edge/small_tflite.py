"""The small network of ``benchmarks.models.small_network`` as a TFLite file, with the same weights."""

from typing import Any

import numpy
import onnx


class _LiteConversion:
    """Converts node by node; tensors have channels last. ``known`` has the index and the shape of each tensor."""

    def __init__(self, network: onnx.ModelProto) -> None:
        from tests.client.tflite.model_builder import ModelBuilder

        self.model = ModelBuilder()
        self.network = network
        self.weights = {each.name: onnx.numpy_helper.to_array(each) for each in network.graph.initializer}
        _, channels, height, width = (each.dim_value for each in network.graph.input[0].type.tensor_type.shape.dim)
        shape = (1, height, width, channels)
        self.known: dict[str, tuple[int, tuple[int, ...]]] = {
            network.graph.input[0].name: (self.model.input(shape), shape)
        }

    def content(self) -> bytes:
        for node in self.network.graph.node:
            getattr(self, f"_{node.op_type.lower()}")(node, _attributes(node))
        content: bytes = self.model.content(self.known[self.network.graph.output[0].name][0])
        return content

    def _operator(
        self, node: onnx.NodeProto, name: str, shape: tuple[int, ...], inputs: list[int], kind: str = "", **fields: Any
    ) -> None:
        from tests.client.tflite.model_builder import options

        made = self.model.tensor(shape)
        self.model.operator(name, inputs, [made], options(kind, **fields) if kind else None)
        self.known[node.output[0]] = (made, shape)

    def _conv(self, node: onnx.NodeProto, given: dict[str, Any]) -> None:
        from tests.client.tflite.model_builder import SAME, VALID, options

        x, (_, height, width, channels) = self.known[node.input[0]]
        stride, weight = given["strides"][0], self.weights[node.input[1]]
        padding = SAME
        if stride > 1:  # SAME pads the end only, where ONNX's file pads both sides.
            padded = self.model.tensor((1, height + 2, width + 2, channels))
            sides = self.model.weight(numpy.array([[0, 0], [1, 1], [1, 1], [0, 0]], numpy.int32))
            self.model.operator("PAD", [x, sides], [padded], options("PadOptions"))
            x, padding = padded, VALID
        is_depthwise = given["group"] > 1
        values = numpy.ascontiguousarray(weight.transpose((1, 2, 3, 0) if is_depthwise else (0, 2, 3, 1)))
        inputs = [x, self.model.weight(values), self.model.weight(self.weights[node.input[2]])]
        shape = (1, height // stride, width // stride, weight.shape[0])
        steps = {"strideW": stride, "strideH": stride, "dilationWFactor": 1, "dilationHFactor": 1, "padding": padding}
        if is_depthwise:
            self._operator(
                node, "DEPTHWISE_CONV_2D", shape, inputs, "DepthwiseConv2DOptions", depthMultiplier=1, **steps
            )
        else:
            self._operator(node, "CONV_2D", shape, inputs, "Conv2DOptions", **steps)

    def _relu(self, node: onnx.NodeProto, _: dict[str, Any]) -> None:
        x, shape = self.known[node.input[0]]
        self._operator(node, "RELU", shape, [x])

    def _add(self, node: onnx.NodeProto, _: dict[str, Any]) -> None:
        inputs = [self.known[each][0] for each in node.input]
        self._operator(node, "ADD", self.known[node.input[0]][1], inputs, "AddOptions")

    def _maxpool(self, node: onnx.NodeProto, given: dict[str, Any]) -> None:
        from tests.client.tflite.model_builder import VALID

        x, (_, height, width, channels) = self.known[node.input[0]]
        size, stride = given["kernel_shape"][0], given.get("strides", [1])[0]
        shape = (1, (height - size) // stride + 1, (width - size) // stride + 1, channels)
        steps = {"strideW": stride, "strideH": stride, "filterWidth": size, "filterHeight": size}
        self._operator(node, "MAX_POOL_2D", shape, [x], "Pool2DOptions", padding=VALID, **steps)

    def _globalaveragepool(self, node: onnx.NodeProto, _: dict[str, Any]) -> None:
        x, shape = self.known[node.input[0]]
        axes = self.model.weight(numpy.array([1, 2], numpy.int32))
        self._operator(node, "MEAN", (1, shape[-1]), [x, axes], "ReducerOptions", keepDims=False)

    def _flatten(self, node: onnx.NodeProto, _: dict[str, Any]) -> None:
        self.known[node.output[0]] = self.known[node.input[0]]

    def _gemm(self, node: onnx.NodeProto, _: dict[str, Any]) -> None:
        x, weight = self.known[node.input[0]][0], self.weights[node.input[1]]
        inputs = [x, self.model.weight(weight), self.model.weight(self.weights[node.input[2]])]
        self._operator(node, "FULLY_CONNECTED", (1, weight.shape[0]), inputs, "FullyConnectedOptions")

    def _softmax(self, node: onnx.NodeProto, _: dict[str, Any]) -> None:
        x, shape = self.known[node.input[0]]
        self._operator(node, "SOFTMAX", shape, [x], "SoftmaxOptions", beta=1.0)


def tflite_of(network: onnx.ModelProto) -> bytes:
    """The file. Its input has channels last.

    Raises:
        ImportError: ai-edge-litert is not installed.
    """
    return _LiteConversion(network).content()


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
