"""The twelve models in the sizes of the comparison."""

from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.models.zoo.decoder import DecoderStep
from benchmarks.models.zoo.detector import Detector
from benchmarks.models.zoo.encoders import AudioEncoder, ImageEncoder, TextEncoder
from benchmarks.models.zoo.mobile_networks import EFFICIENTNET_B0, MOBILENET_V2, MobileNetwork
from benchmarks.models.zoo.recurrent import Recurrent
from benchmarks.models.zoo.residual_network import BasicBlock, Bottleneck, Int8Block, ResidualNetwork
from benchmarks.models.zoo.u_net import UNet
from benchmarks.models.zoo.zoo_model import ZooModel, images, normal

INT8_TOLERANCE = 2e-2
"""An activation that lies between two int8 values may be rounded to either, which later layers amplify."""
DETECTOR_TOLERANCE = 1e-3
"""A width is a square of a sigmoid times up to 1,500 pixels, so that rounding shows a hundredfold."""


def text_inputs(vocabulary: int, tokens: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ids, and a mask that hides the last quarter."""
    mask = torch.ones(1, tokens, dtype=torch.int64)
    mask[:, tokens - tokens // 4 :] = 0
    return torch.randint(vocabulary, (1, tokens), generator=generator), mask


def step_inputs(
    vocabulary: int, shape: tuple[int, int, int, int, int], generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A token in the second half of the cache."""
    tokens = shape[3]
    position = torch.randint(tokens // 2, tokens, (1,), generator=generator)
    token = torch.randint(vocabulary, (1, 1), generator=generator)
    return token, position, torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


_image = images(224)

MODELS = (
    ZooModel("resnet18", partial(ResidualNetwork, BasicBlock, (2, 2, 2, 2), 64, 1000), _image, parameters=11_689_512),
    ZooModel("resnet50", partial(ResidualNetwork, Bottleneck, (3, 4, 6, 3), 64, 1000), _image, parameters=25_557_032),
    ZooModel(
        "mobilenet-v2",
        partial(MobileNetwork, MOBILENET_V2, scale=1.0, last=1280, classes=1000, activation=nn.ReLU6, squeeze=False),
        _image,
        parameters=3_504_872,
    ),
    ZooModel(
        "efficientnet-b0",
        partial(MobileNetwork, EFFICIENTNET_B0, scale=1.0, last=1280, classes=1000, activation=nn.SiLU, squeeze=True),
        _image,
        parameters=5_288_548,
    ),
    ZooModel(
        "detector",
        partial(Detector, 16, 80, 320),
        images(320),
        output_names=("boxes", "scores"),
        tolerance=DETECTOR_TOLERANCE,
    ),
    ZooModel(
        "bert",
        partial(TextEncoder, vocabulary=30_522, tokens=128, width=768, heads=12, layers=4),
        partial(text_inputs, 30_522, 128),
        input_names=("token_ids", "attention_mask"),
        output_names=("states", "pooled"),
    ),
    ZooModel(
        "vit-tiny",
        partial(ImageEncoder, size=224, patch=16, width=192, heads=3, layers=12, classes=1000),
        _image,
        parameters=5_717_416,
    ),
    ZooModel(
        "whisper",
        partial(AudioEncoder, mels=80, frames=3000, width=384, heads=6, layers=4),
        normal(1, 80, 3000),
        input_names=("mel",),
        output_names=("states",),
        parameters=7_632_384,
    ),
    ZooModel(
        "decoder",
        partial(DecoderStep, vocabulary=32_000, tokens=256, width=512, heads=8, key_heads=4, hidden=1408, layers=6),
        partial(step_inputs, 32_000, (6, 1, 4, 256, 64)),
        input_names=("token", "position", "keys", "values"),
        output_names=("logits", "new_keys", "new_values"),
    ),
    ZooModel("lstm", partial(Recurrent, features=64, width=256, layers=2, classes=10), normal(1, 50, 64)),
    ZooModel("u-net", partial(UNet, 32, 2), images(128)),
    ZooModel("int8-cnn", partial(ResidualNetwork, Int8Block, (2, 2, 2, 2), 32, 1000), _image, tolerance=INT8_TOLERANCE),
)

ZOO = {model.name: model for model in MODELS}

RELATIVES = {
    "resnet34": ZooModel(
        "resnet34", partial(ResidualNetwork, BasicBlock, (3, 4, 6, 3), 64, 1000), _image, parameters=21_797_672
    )
}
"""Models that share tasks with one of the twelve."""
