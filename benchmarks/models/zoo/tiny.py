"""The twelve models, so narrow and short that unscheduled kernels run them in seconds."""

from functools import partial

from torch import nn

from benchmarks.models.zoo.decoder import DecoderStep
from benchmarks.models.zoo.detector import Detector
from benchmarks.models.zoo.encoders import AudioEncoder, ImageEncoder, TextEncoder
from benchmarks.models.zoo.full_size import DETECTOR_TOLERANCE, INT8_TOLERANCE, ZOO, step_inputs, text_inputs
from benchmarks.models.zoo.mobile_networks import MobileNetwork
from benchmarks.models.zoo.recurrent import Recurrent
from benchmarks.models.zoo.residual_network import BasicBlock, Bottleneck, Int8Block, ResidualNetwork
from benchmarks.models.zoo.u_net import UNet
from benchmarks.models.zoo.zoo_model import ZooModel, images, normal

_image = images(64)
_stages = ((3, 1, 8, 1, 1), (3, 6, 16, 2, 2), (5, 6, 24, 1, 2))

MODELS = (
    ZooModel("resnet18", partial(ResidualNetwork, BasicBlock, (1, 1, 1, 1), 8, 10), _image),
    ZooModel("resnet50", partial(ResidualNetwork, Bottleneck, (1, 2, 1, 1), 4, 10), _image),
    ZooModel(
        "mobilenet-v2",
        partial(MobileNetwork, _stages, scale=0.5, last=32, classes=10, activation=nn.ReLU6, squeeze=False),
        _image,
    ),
    ZooModel(
        "efficientnet-b0",
        partial(MobileNetwork, _stages, scale=0.5, last=32, classes=10, activation=nn.SiLU, squeeze=True),
        _image,
    ),
    ZooModel(
        "detector",
        partial(Detector, 4, 3, 96),
        images(96),
        output_names=("boxes", "scores"),
        tolerance=DETECTOR_TOLERANCE,
    ),
    ZooModel(
        "bert",
        partial(TextEncoder, vocabulary=50, tokens=16, width=32, heads=4, layers=2),
        partial(text_inputs, 50, 16),
        input_names=ZOO["bert"].input_names,
        output_names=ZOO["bert"].output_names,
    ),
    ZooModel("vit-tiny", partial(ImageEncoder, size=32, patch=8, width=24, heads=3, layers=2, classes=10), images(32)),
    ZooModel(
        "whisper",
        partial(AudioEncoder, mels=8, frames=40, width=24, heads=3, layers=2),
        normal(1, 8, 40),
        input_names=("mel",),
        output_names=("states",),
    ),
    ZooModel(
        "decoder",
        partial(DecoderStep, vocabulary=50, tokens=16, width=32, heads=4, key_heads=2, hidden=48, layers=2),
        partial(step_inputs, 50, (2, 1, 2, 16, 8)),
        input_names=ZOO["decoder"].input_names,
        output_names=ZOO["decoder"].output_names,
    ),
    ZooModel("lstm", partial(Recurrent, features=8, width=16, layers=2, classes=4), normal(1, 6, 8)),
    ZooModel("u-net", partial(UNet, 4, 2), images(32)),
    ZooModel("int8-cnn", partial(ResidualNetwork, Int8Block, (1, 1, 1, 1), 8, 10), _image, tolerance=INT8_TOLERANCE),
)

TINY_ZOO = {model.name: model for model in MODELS}

TINY_RELATIVES = {"resnet34": ZooModel("resnet34", partial(ResidualNetwork, BasicBlock, (2, 1, 2, 1), 8, 10), _image)}
