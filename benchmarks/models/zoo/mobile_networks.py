"""MobileNetV2 (Sandler et al. 2018) and EfficientNet (Tan and Le 2019), as torchvision defines them."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

MakeActivation = Callable[[], nn.Module]


def rounded_width(channels: float) -> int:
    """The nearest multiple of eight, not more than a tenth below ``channels``."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def conv_block(
    channels_in: int, channels_out: int, kernel: int, stride: int, activation: MakeActivation, groups: int = 1
) -> nn.Sequential:
    """A convolution, its batch norm and an activation."""
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels_out), activation())


class SqueezeExcitation(nn.Module):
    """Scales of the channels from their means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """``x`` scaled."""
        return x * self.scale(x)


class InvertedResidual(nn.Module):
    """Expansion by 1x1, a depthwise convolution, and a linear 1x1; with a shortcut where shapes are equal."""

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int,
        stride: int,
        expand: int,
        activation: MakeActivation,
        *,
        squeeze: bool,
    ) -> None:
        super().__init__()
        hidden = channels_in * expand
        layers: list[nn.Module] = [] if expand == 1 else [conv_block(channels_in, hidden, 1, 1, activation)]
        layers.append(conv_block(hidden, hidden, kernel, stride, activation, groups=hidden))
        if squeeze:
            layers.append(SqueezeExcitation(hidden, max(1, channels_in // 4)))
        layers.append(conv_block(hidden, channels_out, 1, 1, nn.Identity))
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        return x + self.layers(x) if self.shortcut else self.layers(x)


Stage = tuple[int, int, int, int, int]
"""Kernel, expansion, channels, blocks and stride of a stage."""

MOBILENET_V2: Sequence[Stage] = (
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (3, 6, 32, 3, 2), (3, 6, 64, 4, 2),
    (3, 6, 96, 3, 1), (3, 6, 160, 3, 2), (3, 6, 320, 1, 1),
)  # fmt: skip
EFFICIENTNET_B0: Sequence[Stage] = (
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1), (5, 6, 192, 4, 2), (3, 6, 320, 1, 1),
)  # fmt: skip


class MobileNetwork(nn.Module):
    """A stem, stages of inverted residual blocks, a 1x1 convolution and a classifier.

    Args:
        stages: of the published network.
        scale: of all widths but the last.
        last: channels before the classifier.
        classes: of the classifier.
        activation: after all convolutions but the linear ones.
        squeeze: whether blocks scale their channels.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        scale: float,
        last: int,
        classes: int,
        activation: MakeActivation,
        squeeze: bool,
    ) -> None:
        super().__init__()
        channels = rounded_width(32 * scale)
        layers: list[nn.Module] = [conv_block(3, channels, 3, 2, activation)]
        for kernel, expand, width, blocks, stride in stages:
            for index in range(blocks):
                width_out = rounded_width(width * scale)
                layers.append(
                    InvertedResidual(
                        channels, width_out, kernel, 1 if index else stride, expand, activation, squeeze=squeeze
                    )
                )
                channels = width_out
        layers.append(conv_block(channels, last, 1, 1, activation))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, [batch, classes], of images [batch, 3, height, width]."""
        return self.classifier(self.pool(self.features(x)).flatten(1))
