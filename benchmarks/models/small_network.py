"""Writes a small convolutional network as ONNX, with random weights. Give the path of the file.

Needs onnx only, which is a tenth of torch.
"""

import sys
from pathlib import Path

import numpy
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[numpy.float32]
OPSET, IR_VERSION = 17, 8
IMAGE = (1, 3, 64, 64)
CLASSES = 10


class Network:
    """Nodes and weights, in the order in which they are added. Each method returns the name of its output."""

    def __init__(self, seed: int = 0) -> None:
        """Draw weights from ``seed``."""
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._generator = numpy.random.default_rng(seed)

    def conv(
        self, x: str, channels_in: int, channels_out: int, *, kernel: int = 3, stride: int = 1, groups: int = 1
    ) -> str:
        """A convolution with bias."""
        fan_in = channels_in // groups * kernel**2
        weight = self._weight((channels_out, channels_in // groups, kernel, kernel), (2 / fan_in) ** 0.5)
        bias = self._weight((channels_out,), 0.1)
        side = kernel // 2
        return self.node(
            "Conv", x, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[side] * 4, group=groups
        )

    def dense(self, x: str, features_in: int, features_out: int) -> str:
        """A fully connected layer."""
        weight = self._weight((features_out, features_in), features_in**-0.5)
        return self.node("Gemm", x, weight, self._weight((features_out,), 0.1), transB=1)

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Any operator."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def _weight(self, shape: tuple[int, ...], scale: float) -> str:
        name = f"weight_{len(self.weights)}"
        values: Array = (scale * self._generator.standard_normal(shape)).astype(numpy.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name


def small_network() -> onnx.ModelProto:
    """A stem, a residual block, a depthwise and a pointwise convolution, and a classifier."""
    network = Network()
    x = network.node("Relu", network.conv("image", 3, 32, stride=2))
    inner = network.node("Relu", network.conv(x, 32, 32))
    x = network.node("Relu", network.node("Add", network.conv(inner, 32, 32), x))
    x = network.node("MaxPool", network.node("Relu", network.conv(x, 32, 64)), kernel_shape=[2, 2], strides=[2, 2])
    x = network.node("Relu", network.conv(x, 64, 64, groups=64))
    x = network.node("Relu", network.conv(x, 64, 128, kernel=1))
    x = network.dense(network.node("Flatten", network.node("GlobalAveragePool", x)), 128, CLASSES)
    network.nodes.append(helper.make_node("Softmax", [x], ["scores"], axis=1))
    graph = helper.make_graph(
        network.nodes,
        "small_network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (IMAGE[0], CLASSES))],
        network.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(small_network(), path)
