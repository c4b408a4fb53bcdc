"""Writes an ONNX network as a program of ExecuTorch for XNNPACK: ``PYTHON executorch_program.py NETWORK PROGRAM``.

PYTHON is an interpreter with executorch and onnx, so this file imports nothing of the project.
"""

import sys
from pathlib import Path
from typing import Any

import onnx
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch.nn import functional


class ExecutorchNetwork(torch.nn.Module):
    """The nodes of a network in their order, on its weights."""

    def __init__(self, network: onnx.ModelProto) -> None:
        super().__init__()
        self.nodes = [
            (each.op_type, list(each.input), each.output[0], _attributes(each)) for each in network.graph.node
        ]
        self.input, self.output = network.graph.input[0].name, network.graph.output[0].name
        self.weights = [each.name for each in network.graph.initializer]
        for each in network.graph.initializer:
            self.register_buffer(each.name, torch.from_numpy(onnx.numpy_helper.to_array(each).copy()))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """The output of the network."""
        values = {name: getattr(self, name) for name in self.weights} | {self.input: image}
        for operator, inputs, output, given in self.nodes:
            values[output] = _computed(operator, given, *(values[each] for each in inputs))
        return values[self.output]


def _computed(operator: str, given: dict[str, Any], x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
    match operator:
        case "Conv":
            pad, *_ = given["pads"]
            return functional.conv2d(x, *more, stride=given["strides"], padding=pad, groups=given["group"])
        case "Relu":
            return functional.relu(x)
        case "Add":
            return x + more[0]
        case "MaxPool":
            return functional.max_pool2d(x, given["kernel_shape"], given["strides"])
        case "GlobalAveragePool":
            return functional.adaptive_avg_pool2d(x, 1)
        case "Flatten":
            return torch.flatten(x, 1)
        case "Gemm":
            return functional.linear(x, *more)
        case "Softmax":
            return functional.softmax(x, given["axis"])
    raise ValueError(f"{operator} is not among the operators of the small network")


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def main(network: Path, program: Path) -> None:
    """Export, lower and write the network."""
    model = onnx.load(network)
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    exported = torch.export.export(ExecutorchNetwork(model).eval(), (torch.zeros(shape),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    program.write_bytes(lowered.to_executorch().buffer)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
