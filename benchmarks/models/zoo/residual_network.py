"""ResNet (He et al. 2015), with the strides of torchvision's models; also as an int8 network."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.int8_layers import int8_conv, int8_linear


def conv_norm(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and its batch norm."""
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels_out))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm(channels_in, width, 3, stride)
        self.second = conv_norm(width, width, 3)
        same = stride == 1 and channels_in == width
        self.shortcut = nn.Identity() if same else conv_norm(channels_in, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the 3x3 has the stride."""

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.reduce = conv_norm(channels_in, width, 1)
        self.conv = conv_norm(width, width, 3, stride)
        self.expand = conv_norm(width, width * 4, 1)
        same = stride == 1 and channels_in == width * 4
        self.shortcut = nn.Identity() if same else conv_norm(channels_in, width * 4, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        inner = functional.relu(self.conv(functional.relu(self.reduce(x))))
        return functional.relu(self.expand(inner) + self.shortcut(x))


class Int8Block(nn.Module):
    """A basic block of int8 convolutions, batch norms folded into them."""

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = int8_conv(channels_in, width, 3, stride)
        self.second = int8_conv(width, width, 3)
        same = stride == 1 and channels_in == width
        self.shortcut = nn.Identity() if same else int8_conv(channels_in, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


class ResidualNetwork(nn.Module):
    """A stem, four stages of blocks of doubling width, and a classifier.

    Args:
        block: the class of its blocks.
        depths: the number of blocks of each stage.
        width: of the stem and the first stage.
        classes: of the classifier.
    """

    def __init__(
        self, block: type[BasicBlock | Bottleneck | Int8Block], depths: Sequence[int], width: int, classes: int
    ) -> None:
        super().__init__()
        int8 = block is Int8Block
        self.stem = int8_conv(3, width, 7, 2) if int8 else conv_norm(3, width, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        stages: list[nn.Module] = []
        channels = width
        for number, depth in enumerate(depths):
            for index in range(depth):
                stages.append(block(channels, width << number, 2 if number and not index else 1))
                channels = (width << number) * block.expansion
        self.stages = nn.Sequential(*stages)
        self.classifier = int8_linear(channels, classes) if int8 else nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, [batch, classes], of images [batch, 3, height, width]."""
        x = self.stages(self.pool(functional.relu(self.stem(x))))
        return self.classifier(functional.adaptive_avg_pool2d(x, 1).flatten(1))
