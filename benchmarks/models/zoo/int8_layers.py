"""Int8 layers in the form that torch's quantization exports: quantize and dequantize around float operators.

A compiler recognizes the pairs and computes with int8; torch itself rounds and then computes with float32.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import Tensor, nn
from torch.nn import functional

LOWEST, HIGHEST = -128, 127
quantized = torch.ops.quantized_decomposed


class Int8Layer(nn.Module):
    """A layer with int8 activations, one scale a tensor, and symmetric int8 weights, one scale an output channel.

    Before ``quantize`` it computes with float32 and observes the range of its input. ``operator`` does what ``layer``
    does, on an input, a weight and a bias.
    """

    def __init__(self, layer: nn.Conv2d | nn.Linear, operator: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.operator = operator
        self.layer: nn.Conv2d | nn.Linear | None = layer
        self.observed = 0.0
        self.scale = 1.0

    def quantize(self) -> None:
        """Round the weights, and fix the scale of the input at the observed range."""
        assert self.layer is not None
        weight, bias = self.layer.weight.detach(), self.layer.bias
        assert bias is not None
        scales = weight.flatten(1).abs().amax(1) / HIGHEST
        rounded = torch.round(weight / scales.reshape(-1, *[1] * (weight.dim() - 1))).to(torch.int8)
        self.register_buffer("weight", rounded)
        self.register_buffer("weight_scales", scales)
        self.register_buffer("weight_zero_points", torch.zeros(len(scales), dtype=torch.int64))
        self.register_buffer("bias", bias.detach().clone())
        self.scale = self.observed / HIGHEST
        self.layer = None

    def forward(self, x: Tensor) -> Tensor:
        """The layer, on rounded inputs and weights."""
        if self.layer is not None:
            self.observed = max(self.observed, float(x.abs().max()))
            return self.layer(x)
        x = quantized.quantize_per_tensor(x, self.scale, 0, LOWEST, HIGHEST, torch.int8)
        x = quantized.dequantize_per_tensor(x, self.scale, 0, LOWEST, HIGHEST, torch.int8)
        weight = quantized.dequantize_per_channel(
            self.weight, self.weight_scales, self.weight_zero_points, 0, LOWEST, HIGHEST, torch.int8
        )
        return self.operator(x, weight, self.bias)


def int8_conv(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> Int8Layer:
    """A 2D convolution with bias, int8 inputs and weights."""
    padding = kernel // 2
    layer = nn.Conv2d(channels_in, channels_out, kernel, stride, padding)
    return Int8Layer(layer, partial(functional.conv2d, stride=stride, padding=padding))


def int8_linear(features_in: int, features_out: int) -> Int8Layer:
    """A fully connected layer with bias, int8 inputs and weights."""
    return Int8Layer(nn.Linear(features_in, features_out), functional.linear)
