"""Models of one operator: the eight shapes of the comparison, ResNet-18's convolutions, and BERT's operators.

Shapes of the eight are those of TVM's test suite (``te:GMM`` and so on), in torch's layout: channels first.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn

from benchmarks.models.zoo.zoo_model import ZooModel, normal

PAIR: Final = ("a", "b")


class Product(nn.Module):
    """The product of two inputs."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Matrix product over the last two dimensions."""
        return a @ b


class FrobeniusNorm(nn.Module):
    """The norm of each matrix of a batch."""

    def forward(self, x: Tensor) -> Tensor:
        """Shape [batch], of [batch, rows, columns]."""
        return torch.sqrt((x * x).sum((1, 2)))


def _convolution(inputs: int, outputs: int, kernel: int, stride: int, padding: int, groups: int = 1) -> nn.Module:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups)


def _normalised(inputs: int, outputs: int, kernel: int, stride: int, padding: int) -> nn.Module:
    layers = (nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.BatchNorm2d(outputs), nn.ReLU())
    return nn.Sequential(*layers)


def _pair(*shapes: tuple[int, ...]) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    return lambda generator: tuple(torch.randn(*shape, generator=generator) for shape in shapes)


def _product(name: str, *shapes: tuple[int, ...]) -> ZooModel:
    return ZooModel(name, Product, _pair(*shapes), input_names=PAIR)


def _resnet(inputs: int, outputs: int, side: int, kernel: int, stride: int) -> ZooModel:
    name = f"resnet18-conv-{kernel}x{kernel}-{inputs}-{outputs}" + ("" if stride == 1 else f"-stride-{stride}")
    make = partial(_convolution, inputs, outputs, kernel, stride, kernel // 2)
    return ZooModel(name, make, normal(1, inputs, side, side))


SUITE: Final = (
    _product("GMM", (1, 128, 128), (1, 128, 128)),
    ZooModel("C1D", partial(nn.Conv1d, 64, 128, 3, 2, 1), normal(1, 64, 256)),
    ZooModel("C2D", partial(_convolution, 3, 64, 7, 2, 3), normal(1, 3, 224, 224)),
    ZooModel("DEP", partial(_convolution, 32, 32, 3, 1, 1, groups=32), normal(1, 32, 112, 112)),
    ZooModel("SFM", partial(nn.Softmax, -1), normal(256, 256)),
    ZooModel("T2D", partial(nn.ConvTranspose2d, 512, 256, 4, 2, 1), normal(1, 512, 4, 4)),
    ZooModel("NRM", FrobeniusNorm, normal(1, 256, 256)),
    ZooModel("CBR", partial(_normalised, 3, 64, 7, 2, 3), normal(1, 3, 224, 224)),
)

RESNET18: Final = (
    _resnet(64, 64, 56, 3, 1),
    _resnet(64, 128, 56, 3, 2),
    _resnet(64, 128, 56, 1, 2),
    _resnet(128, 128, 28, 3, 1),
    _resnet(128, 256, 28, 3, 2),
    _resnet(128, 256, 28, 1, 2),
    _resnet(256, 256, 14, 3, 1),
    _resnet(256, 512, 14, 3, 2),
    _resnet(256, 512, 14, 1, 2),
    _resnet(512, 512, 7, 3, 1),
)
"""All but the first, which is C2D."""

BERT: Final = (
    ZooModel("bert-dense-768-768", partial(nn.Linear, 768, 768), normal(128, 768)),
    ZooModel("bert-dense-768-3072", partial(nn.Linear, 768, 3072), normal(128, 768)),
    ZooModel("bert-dense-3072-768", partial(nn.Linear, 3072, 768), normal(128, 3072)),
    ZooModel("bert-pooler", partial(nn.Linear, 768, 768), normal(1, 768)),
    _product("bert-scores", (12, 128, 64), (12, 64, 128)),
    _product("bert-values", (12, 128, 128), (12, 128, 64)),
    ZooModel("bert-layer-norm", partial(nn.LayerNorm, 768, 1e-12), normal(1, 128, 768)),
    ZooModel("bert-softmax", partial(nn.Softmax, -1), normal(1, 12, 128, 128)),
)

GROUPS: Final = {"suite": SUITE, "resnet18": RESNET18, "bert": BERT}
OPERATORS: Final = {model.name: model for group in GROUPS.values() for model in group}
